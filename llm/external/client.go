package external

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config says where the server is. Only URL is needed.
type Config struct {
	URL   string        // of the API, such as http://gpu:8000/v1
	Key   string        // sent as a bearer token; "": none
	Model string        // as the server calls it; "": the first one that it lists
	First time.Duration // to wait for the first piece of an answer; 0: two minutes, in which a long prompt is read on a busy server
	Next  time.Duration // to wait for every further piece; 0: one minute
}

// Client calls one server. Build it with [New].
type Client struct {
	config Config
	http   *http.Client

	mu    sync.Mutex
	model string // as found out
}

// New checks the configuration; it does not contact the server.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("external: %q is no address of a server: write it like http://gpu:8000/v1", redact(c.URL))
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1"
	}
	c.URL = strings.TrimSuffix(u.String(), "/")
	c.First, c.Next = cmp.Or(c.First, 2*time.Minute), cmp.Or(c.Next, time.Minute)
	transport, _ := http.DefaultTransport.(*http.Transport)
	transport = transport.Clone()
	transport.MaxIdleConnsPerHost = 64
	return &Client{config: c, model: c.Model, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// redact hides a password in an address.
func redact(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return "this"
}

// Address is the server's address, without a password.
func (c *Client) Address() string { return redact(c.config.URL) }

// Name is the model's name as far as it is known.
func (c *Client) Name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.model, "external")
}

// Error is what a server answered instead of an answer, or why there was none.
type Error struct {
	Status     int           // of HTTP; 0: there was no response
	Reason     string        // for people
	TooLong    bool          // the prompt does not fit its context
	RetryAfter time.Duration // as it asked for
	Err        error         // that of the connection
}

func (e *Error) Error() string { return "external: " + e.Reason }

func (e *Error) Unwrap() error { return e.Err }

// Ping asks for the list of models, and learns the model's name from it if it was not configured.
func (c *Client) Ping(ctx context.Context) error {
	response, err := c.send(ctx, http.MethodGet, "/models", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&list); err != nil {
		return &Error{Status: response.StatusCode, Reason: c.Address() + "/models is no list of models: is this the address of an OpenAI-compatible API?", Err: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.model == "" {
		if len(list.Data) == 0 {
			return &Error{Reason: "the server at " + c.Address() + " lists no model: name one with --engine-model"}
		}
		c.model = list.Data[0].ID
	}
	return nil
}

// known returns the model's name.
func (c *Client) known(ctx context.Context) (string, error) {
	c.mu.Lock()
	name := c.model
	c.mu.Unlock()
	if name != "" {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Next)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		return "", err
	}
	return c.Name(), nil
}

// send sends a request and returns a response of status 200.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.config.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Reason: "the address cannot be used", Err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	if c.config.Key != "" {
		request.Header.Set("Authorization", "Bearer "+c.config.Key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) { // its text has the address, with what it may hold
			err = wrapped.Err
		}
		return nil, &Error{Reason: "the engine at " + c.Address() + " cannot be reached: " + err.Error(), Err: err}
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, c.refused(response)
	}
	return response, nil
}

// refused reads why a server did not answer.
func (c *Client) refused(response *http.Response) error {
	e := &Error{Status: response.StatusCode}
	if s, err := strconv.ParseInt(response.Header.Get("Retry-After"), 10, 32); err == nil && s >= 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // what came of it will do
	said := messageOf(text)
	e.Reason = fmt.Sprintf("the engine at %s refuses the request with status %d", c.Address(), e.Status)
	switch low := strings.ToLower(said); e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		e.TooLong = e.Status == http.StatusRequestEntityTooLarge || strings.Contains(low, "context") && (strings.Contains(low, "length") || strings.Contains(low, "size") || strings.Contains(low, "exceed"))
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		e.Reason += ": " + said
	}
	return e
}

// messageOf finds the message of an error in the forms in which servers write it, shortened.
func messageOf(body []byte) string {
	var form struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	text := string(body)
	if json.Unmarshal(body, &form) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		var plain string
		switch {
		case json.Unmarshal(form.Error, &inner) == nil && inner.Message != "":
			text = inner.Message
		case json.Unmarshal(form.Error, &plain) == nil && plain != "":
			text = plain
		case form.Message != "":
			text = form.Message
		}
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	const most = 200
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "..."
	}
	return text
}
