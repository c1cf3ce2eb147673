package ingest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// Fetcher fetches documents from addresses that a user has listed. It is the only
// part of the package that opens connections.
type Fetcher struct {
	Private bool          // addresses of this machine and of private networks are allowed
	Time    time.Duration // of one document; default 2 min
}

// maxRedirects is how many times a server may send us elsewhere.
const maxRedirects = 5

// errPrivate is met when an address leads to where strangers must not send us: an
// address in a list, or a redirect from it, could reach services that trust their
// own network.
var errPrivate = errors.New("it leads to this machine or a private network; allow that with --allow-private if it is meant")

// Fetch takes the documents at the addresses in list, one a line, into the corpus,
// to be worked on by the next Run; empty lines and those that begin with # are
// skipped. A document's path is its address. What cannot be fetched is in the
// report's Failed: an error page never becomes a document. each, which may be nil,
// is told every address.
func (p *Pipeline) Fetch(ctx context.Context, tenant, corpus string, list io.Reader, f Fetcher, each func(address string)) (Report, error) {
	r := p.newRun(tenant, corpus, nil, nil)
	if err := r.checkIndex(ctx); err != nil {
		return Report{}, fmt.Errorf("ingest: into corpus %s: %w", corpus, err)
	}
	client := f.client()
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		address := strings.TrimSpace(lines.Text())
		if address == "" || strings.HasPrefix(address, "#") {
			continue
		}
		if each != nil {
			each(address)
		}
		err := r.fetch(ctx, client, address)
		var refused *Error
		switch {
		case errors.As(err, &refused):
			r.update(func() { r.noteFailure(address, Failure{Class: refused.Class, Message: refused.Message}) })
		case err != nil:
			return r.report, fmt.Errorf("ingest: into corpus %s: %w", corpus, err)
		}
	}
	if err := lines.Err(); err != nil {
		return r.report, fmt.Errorf("ingest: list of addresses: %w", err)
	}
	return r.report, nil
}

func (f Fetcher) client() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if !f.Private {
		// Checked when the connection is made, on the very address that was resolved: a name that is checked before may resolve otherwise after.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !public(at.Addr()) {
				return errPrivate
			}
			return nil
		}
	}
	return &http.Client{
		Timeout:   cmp.Or(f.Time, 2*time.Minute),
		Transport: &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			return checkScheme(req.URL)
		},
	}
}

// public reports whether an address belongs to the public internet.
func public(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsGlobalUnicast() && !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !reserved(a)
}

// reserved networks that net/netip counts as global: carrier-grade NAT, and the
// IPv6 forms that carry an IPv4 address.
var reservedNetworks = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"),
}

func reserved(a netip.Addr) bool {
	for _, n := range reservedNetworks {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

func checkScheme(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is no http or https address", u.Redacted())
	}
	return nil
}

// fetch takes one document in. An *Error is about this address alone.
func (r *run) fetch(ctx context.Context, client *http.Client, address string) error {
	unreachable := func(err error) error { return failf(Unreadable, "%s was not fetched: %v", address, err) }
	u, err := url.Parse(address)
	if err == nil {
		err = checkScheme(u)
	}
	if err != nil {
		return unreachable(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return unreachable(err)
	}
	req.Header.Set("User-Agent", "ragd")
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return unreachable(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return unreachable(fmt.Errorf("the server answers %s", resp.Status))
	}
	file, size, err := r.download(resp)
	if err != nil {
		return failOr(err, unreachable)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	c := Candidate{Source: Source{Tenant: r.tenant, Corpus: r.corpus, Path: fetchedName(u, resp)}, Size: size, Index: r.p.Index(), Origin: u.Redacted()}
	c.Modified, _ = http.ParseTime(resp.Header.Get("Last-Modified")) // absent or wrong: unknown
	h := sha256.New()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(h, file); err != nil {
		return err
	}
	h.Sum(c.SHA256[:0])
	return r.offer(ctx, c, file)
}

// failOr keeps an *Error and wraps any other.
func failOr(err error, wrap func(error) error) error {
	var refused *Error
	if errors.As(err, &refused) {
		return err
	}
	return wrap(err)
}

// download stores a body in a temporary file, at most as large as a document may be.
func (r *run) download(resp *http.Response) (*os.File, int64, error) {
	limits := r.p.Limits.withDefaults()
	if resp.ContentLength > limits.FileBytes {
		return nil, 0, tooLarge(resp.Request.URL.Redacted(), resp.ContentLength, limits)
	}
	file, err := os.CreateTemp("", "ragd-fetch-*")
	if err != nil {
		return nil, 0, err
	}
	size, err := io.Copy(file, io.LimitReader(resp.Body, limits.FileBytes+1))
	if err == nil && size > limits.FileBytes {
		err = tooLarge(resp.Request.URL.Redacted(), size, limits)
	}
	if err != nil {
		file.Close()
		os.Remove(file.Name())
		return nil, 0, err
	}
	return file, size, nil
}

// fetchedName is an address as a path: without scheme, credentials and fragment,
// and with an extension where the server tells the type and the address doesn't.
func fetchedName(u *url.URL, resp *http.Response) string {
	name := u.Host + path.Clean("/"+u.Path)
	if u.RawQuery != "" {
		name += "?" + u.RawQuery
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && path.Ext(u.Path) == "" {
		switch kind {
		case "text/html", "application/xhtml+xml":
			name += ".html"
		case "application/pdf":
			name += ".pdf"
		case "text/markdown":
			name += ".md"
		case "text/plain":
			name += ".txt"
		}
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}
