package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"ragd/answer"
	"ragd/ingest"
	"ragd/llm"
	"ragd/server"
	"ragd/store"
)

// browser is the Chromium that all tests share; each has a tab of its own.
var browser struct {
	once  sync.Once
	ctx   context.Context
	close func()
	err   error
}

func startBrowser() error {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, browser.err = exec.LookPath(name); browser.err == nil {
			break
		}
	}
	if browser.err != nil {
		return errors.New("no Chromium: install the package chromium to test the page")
	}
	profile, err := os.MkdirTemp("", "ragd-browser-")
	if err != nil {
		return err
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Headless, chromedp.UserDataDir(profile), chromedp.WindowSize(1280, 800),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
	}
	allocator, closeAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(allocator)
	browser.ctx = ctx
	browser.close = func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has ended
		closeTab()
		closeAllocator()
		_ = os.RemoveAll(profile)
	}
	return chromedp.Do(ctx)
}

// tab is a page under test.
type tab struct {
	*testing.T
	ctx   context.Context
	other string // an origin beside the page's that may be asked; "": none

	mu       sync.Mutex
	requests []string
	errors   []string // exceptions, and everything that the browser itself complains about but failed requests
}

// openPage opens the page of h at a size and waits until it is ready.
func openPage(t *testing.T, h *harness, width, height int64) *tab {
	t.Helper()
	b := openTab(t, h, width, height)
	b.until(`document.activeElement.id === "question" && document.getElementById("status").textContent !== "connecting…"`)
	return b
}

// openTab opens the page of h at a size. When the test ends, nothing may have been asked of another origin and nothing may have gone wrong in the browser.
func openTab(t *testing.T, h *harness, width, height int64) *tab {
	t.Helper()
	browser.once.Do(func() { browser.err = startBrowser() })
	if browser.err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(browser.err)
		}
		t.Skip(browser.err)
	}
	ctx, cancel := chromedp.NewContext(browser.ctx)
	ctx, timeout := context.WithTimeout(ctx, 2*time.Minute)
	b := &tab{T: t, ctx: ctx}
	var watching sync.WaitGroup
	t.Cleanup(func() {
		timeout()
		cancel()
		watching.Wait()
		require.Empty(t, b.errors)
		for _, url := range b.requests {
			require.True(t, strings.HasPrefix(url, h.url+"/") || b.other != "" && strings.HasPrefix(url, b.other+"/"), "%s is not of the page's origin", url)
		}
	})
	watch(&watching, b, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) { b.requests = append(b.requests, e.Request.URL) })
	watch(&watching, b, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) { b.errors = append(b.errors, e.ExceptionDetails.Text) })
	watch(&watching, b, log.EntryAdded, func(e log.EventEntryAdded) {
		if e.Entry.Source != log.EntrySourceNetwork {
			b.errors = append(b.errors, fmt.Sprintf("%s: %s", e.Entry.Source, e.Entry.Text))
		}
	})
	b.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(h.url+"/"))
	return b
}

func watch[E any](group *sync.WaitGroup, b *tab, ev cdp.Event[E], take func(E)) {
	events := chromedp.Events(b.ctx, ev)
	group.Go(func() {
		for e, err := range events {
			if err != nil {
				return
			}
			b.mu.Lock()
			take(e)
			b.mu.Unlock()
		}
	})
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	require.NoError(b.T, chromedp.Do(b.ctx, steps...))
}

// eval returns the value of a JavaScript expression.
func eval[T any](b *tab, format string, args ...any) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](fmt.Sprintf(format, args...)))
	require.NoError(b.T, err, format)
	return v
}

// until waits for a JavaScript condition.
func (b *tab) until(condition string) {
	b.Helper()
	require.Eventually(b.T, func() bool { return eval[bool](b, "!!(%s)", condition) }, time.Minute, 20*time.Millisecond, condition)
}

func (b *tab) click(selector string) { b.Helper(); b.do(chromedp.Click(chromedp.CSS(selector))) }

func (b *tab) press(keys string, modifiers ...chromedp.KeyOption) {
	b.Helper()
	b.do(chromedp.KeyEvent(keys, modifiers...))
}

// enter presses Enter as a keyboard does: the line break comes of the key, so that a page which handles the key prevents it. chromedp sends it apart.
func (b *tab) enter() {
	b.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		b.do(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
			_, err = cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13})
			return v, err
		})
	}
}

// ask types a question and sends it.
func (b *tab) ask(question string) {
	b.Helper()
	b.press(question)
	b.enter()
	require.Empty(b.T, eval[string](b, `document.getElementById("question").value`))
}

func (b *tab) text(selector string) string {
	b.Helper()
	return eval[string](b, "document.querySelector(%q).textContent", selector)
}

func (b *tab) dark() {
	b.Helper()
	b.do(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
		return v, err
	})
}

// picture saves a screenshot in the folder RAGD_SCREENSHOTS, for people to look at.
func (b *tab) picture(name string) {
	b.Helper()
	folder := os.Getenv("RAGD_SCREENSHOTS")
	if folder == "" {
		return
	}
	image, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.T, err)
	require.NoError(b.T, os.WriteFile(filepath.Join(folder, name+".png"), image, 0o644))
}

const answered = `document.querySelector("article:last-of-type details")`

func TestPageAnswersAndShowsTheExactSource(t *testing.T) {
	h := serve(t, sample, server.Config{})
	b := openPage(t, h, 1280, 800)
	b.picture("welcome")
	b.ask("How many days?")
	b.until(answered)
	require.Equal(t, "🎉 You get 30 days of leave1. Ask the 人事部1. 😀 It is fun.", b.text(".reply"))
	require.Equal(t, "Source 1: Leave, page 2", eval[string](b, `document.querySelector(".chip").getAttribute("aria-label")`))
	require.Equal(t, "1Leave, page 2", b.text(".cited"), "a source that is cited twice stands there once")
	require.Equal(t, "😀 It is fun.", eval[string](b, `[...CSS.highlights.get("unsupported")].map((r) => r.startContainer.data.slice(r.startOffset, r.endOffset)).join("|")`))
	require.Contains(t, b.text("article"), "No passage supports the part that is underlined with dots.")
	require.Equal(t, "Ask the 人事部", eval[string](b, `[...CSS.highlights.get("doubtful")].map((r) => r.startContainer.data.slice(r.startOffset, r.endOffset)).join("|")`))
	require.Contains(t, b.text("article"), "Read the source of the part that is underlined with dashes: it may say something else.")
	b.picture("answer")

	b.click(".chip")
	b.until(`document.querySelector("mark")`)
	require.Equal(t, sampleQuote, b.text("mark"))
	// The same sentence stands in front of it without the emoji; the second one is meant.
	before := sampleText[:strings.Index(sampleText, sampleQuote)]
	require.Equal(t, before, eval[string](b, `document.querySelector("mark").previousSibling.textContent`))
	require.Equal(t, sampleBefore+sampleText+sampleAfter, b.text("#source-text"))
	require.Equal(t, "source", eval[string](b, "document.activeElement.id"))
	require.Equal(t, "true", eval[string](b, `document.querySelector(".chip").getAttribute("aria-expanded")`))
	b.picture("source")

	b.press(kb.Escape)
	b.until(`document.getElementById("source").hidden`)
	require.True(t, eval[bool](b, `document.activeElement === document.querySelector(".chip")`), "the focus goes back to where it came from")
	require.Equal(t, "false", eval[string](b, `document.activeElement.getAttribute("aria-expanded")`))

	b.click("summary")
	b.click("details li button") // a source of the prompt is shown whole, without a mark
	b.until(`document.querySelector(".passage")`)
	require.Equal(t, 0, eval[int](b, `document.querySelectorAll("mark").length`))
	b.click("#source-close")

	b.click("#question")
	b.ask("And then?")
	b.until(`document.querySelectorAll("details").length === 2`)
	require.Equal(t, []answer.Turn{{Question: "How many days?", Answer: sampleAnswer().Text}}, h.questions[1].History)
	b.click("#clear")
	b.until(`!document.querySelector("article") && !document.getElementById("welcome").hidden`)
	b.ask("Anew")
	b.until(answered)
	require.Empty(t, h.questions[2].History)
}

func TestPageSaysWhichSourcesTheModelDidNotRead(t *testing.T) {
	h := serve(t, sampleWithAdded, server.Config{})
	b := openPage(t, h, 1280, 800)
	b.ask("How many days?")
	b.until(answered)
	require.Contains(t, b.text("summary"), "1 passage read")
	require.Equal(t, "Leave, page 2relevance 4.5 · similarity 0.80", b.text("details li:first-child"))
	require.Equal(t, "Leave, page 2found afterwards", b.text("details li:last-child"))
	b.click("summary")
	b.picture("added")
}

func TestPageStreamsAndStops(t *testing.T) {
	asked, cancelled := make(chan struct{}, 1), make(chan struct{}, 1)
	h := serve(t, func(ctx context.Context, _ answer.Question, yield func(answer.Event, error) bool) {
		yield(answer.Event{Sources: sampleAnswer().Sources}, nil)
		asked <- struct{}{}
		for _, text := range []string{"Half an ", "answer [", "1] and"} {
			if !yield(answer.Event{Text: text}, nil) {
				return
			}
		}
		<-ctx.Done()
		cancelled <- struct{}{}
	}, server.Config{})
	b := openPage(t, h, 1280, 800)
	b.ask("x")
	<-asked
	b.until(`document.querySelector(".reply.writing")?.textContent === "Half an answer1 and"`)
	require.True(t, eval[bool](b, `document.getElementById("send").hidden && !document.getElementById("stop").hidden`))
	b.picture("streaming")
	b.click(".chip") // works while the answer is written
	b.until(`document.querySelector(".passage")`)
	b.click("#stop")
	<-cancelled
	b.until(`document.querySelector("article").textContent.includes("Stopped.")`)
	require.Equal(t, "question", eval[string](b, "document.activeElement.id"))
	require.False(t, eval[bool](b, `document.getElementById("send").hidden`))
}

func TestPageSaysThatThereIsNoAnswer(t *testing.T) {
	h := serve(t, func(_ context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		_ = yield(answer.Event{Text: answer.Refusal}, nil) &&
			yield(answer.Event{Done: &answer.Answer{Question: q.Text, Query: "as searched", Text: answer.Refusal, Abstained: true, Reason: "no passage was found"}}, nil)
	}, server.Config{})
	b := openPage(t, h, 1280, 800)
	b.ask("x")
	b.until(`document.querySelector("article.abstained")`)
	require.Equal(t, answer.Refusal, b.text(".reply"))
	require.Contains(t, b.text("article"), "Why: no passage was found.")
	require.Contains(t, b.text("article"), "Searched for: as searched")
	require.Contains(t, b.text("#announce"), "No answer in the documents")
	b.picture("abstained")
}

func TestPageWithdrawsWhatDoesNotHold(t *testing.T) {
	done := make(chan struct{})
	h := serve(t, func(_ context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		a := sampleAnswer()
		if !yield(answer.Event{Sources: a.Sources}, nil) || !yield(answer.Event{Text: "You get 99 days [1]."}, nil) || !yield(answer.Event{Citation: &a.Citations[0]}, nil) ||
			!yield(answer.Event{Replaced: &answer.Replaced{Text: answer.Refusal, Reason: "nothing supports it"}}, nil) {
			return
		}
		<-done
		yield(answer.Event{Done: &answer.Answer{Question: q.Text, Query: q.Text, Text: answer.Refusal, Sources: a.Sources, Abstained: true, Reason: "nothing supports it"}}, nil)
	}, server.Config{})
	b := openPage(t, h, 1280, 800)
	b.ask("x")
	b.until(fmt.Sprintf(`document.querySelector(".reply")?.textContent === %q`, answer.Refusal))
	require.Equal(t, 0, eval[int](b, `document.querySelectorAll(".reply .chip").length`), "nothing of what was withdrawn is left")
	close(done)
	b.until(`document.querySelector("article.abstained")`)
	require.Equal(t, answer.Refusal, b.text(".reply"))
	require.Contains(t, b.text("article"), "nothing supports it")
}

func TestPageShowsErrors(t *testing.T) {
	lost := make(chan struct{})
	h := serve(t, func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		switch q.Text {
		case "busy":
			yield(answer.Event{}, &llm.BusyError{RetryAfter: time.Second})
		case "half":
			_ = yield(answer.Event{Text: "Half"}, nil) && yield(answer.Event{}, errors.New("secret"))
		case "lost":
			yield(answer.Event{Text: "Half"}, nil)
			<-lost
			panic(http.ErrAbortHandler) // each time that the page tries again, too
		default:
			sample(ctx, q, yield)
		}
	}, server.Config{})
	b := openPage(t, h, 1280, 800)
	for i, c := range []struct{ question, want string }{{"busy", "try again later"}, {"half", "internal error"}, {"lost", "reached"}} {
		b.ask(c.question)
		if c.question == "lost" {
			b.until(`document.querySelector("article:last-of-type .reply.writing")`)
			close(lost)
		}
		b.until(fmt.Sprintf(`document.querySelectorAll("article .error[role=alert]").length === %d`, i+1))
		require.Contains(t, b.text("article:last-of-type .error"), c.want)
		require.NotContains(t, b.text("article:last-of-type"), "secret")
	}
	b.picture("errors")
	b.ask("works again")
	b.until(answered)
}

// The connection breaks in the middle of an answer, the page goes on behind the last event that it has; then documents have changed meanwhile, and all
// comes anew. Either way a reader sees the answer once.
func TestPageGoesOnAfterALostConnection(t *testing.T) {
	for name, changed := range map[string]bool{"the same answer": false, "another answer": true} {
		t.Run(name, func(t *testing.T) {
			var tries atomic.Int32
			half := make(chan struct{})
			h := serve(t, func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
				first := tries.Add(1) == 1
				count := 0
				sample(ctx, q, func(e answer.Event, err error) bool {
					if count++; first && count == 5 {
						<-half
						panic(http.ErrAbortHandler)
					}
					if first && changed && e.Text != "" {
						e.Text = "old "
					}
					return yield(e, err)
				})
			}, server.Config{})
			b := openPage(t, h, 1280, 800)
			b.ask("x")
			b.until(`document.querySelector(".reply.writing")?.textContent.length > 3`)
			close(half)
			b.until(answered)
			require.Equal(t, "🎉 You get 30 days of leave1. Ask the 人事部1. 😀 It is fun.", b.text(".reply"))
			require.Equal(t, 0, eval[int](b, `document.querySelectorAll(".error").length`))
			require.EqualValues(t, 2, tries.Load())
			require.Equal(t, 1, eval[int](b, `document.querySelectorAll("article").length`))
		})
	}
}

func TestPageAsksForTheKey(t *testing.T) {
	h := serve(t, sample, server.Config{APIKey: "correct horse"})
	b := openTab(t, h, 1280, 800)
	b.until(`document.getElementById("key").open`)
	b.press("wrong")
	b.enter()
	b.until(`document.getElementById("key").open && document.getElementById("key-input").value === ""`)
	b.picture("key")
	b.press("correct horse")
	b.enter()
	b.until(`document.getElementById("status").textContent === "0 documents"`)
	b.click("#question")
	b.ask("x")
	b.until(answered)
}

func TestPageUploadsAndDeletes(t *testing.T) {
	h := serve(t, sample, server.Config{})
	b := openPage(t, h, 1280, 800)
	b.until(`!document.getElementById("welcome-empty").hidden`)
	b.click("#welcome-add")
	b.until(`document.activeElement.id === "file" && !document.getElementById("no-documents").hidden`)
	b.click("#upload-send")
	b.until(`document.getElementById("uploads").textContent.includes("Choose one or more files")`)

	one, two := filepath.Join(t.TempDir(), "one.txt"), filepath.Join(t.TempDir(), "two <b>bold.txt")
	require.NoError(t, os.WriteFile(one, []byte("1"), 0o600))
	require.NoError(t, os.WriteFile(two, []byte("2"), 0o600))
	b.do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{one, two}))
	b.do(chromedp.SetValue(chromedp.CSS("#upload-corpus"), "hr"))
	b.click("#upload-send")
	b.until(`document.querySelectorAll("#documents tr").length === 2 && document.getElementById("uploads").textContent.includes("received")`)
	require.Equal(t, "hr", h.added[0].Corpus)
	require.Equal(t, "waiting", b.text(".state"))
	h.mu.Lock()
	h.documents[0].State, h.documents[0].Passages, h.documents[0].Live = ingest.Live, 4, true
	h.documents[1].State, h.documents[1].Error, h.documents[1].ErrorClass = ingest.Failed, "two.txt is encrypted; remove the password", ingest.Encrypted
	h.mu.Unlock()
	b.until(`document.querySelector(".state.live") && document.querySelector(".state.failed")`) // the list looks again by itself
	require.Contains(t, b.text("#documents"), "remove the password")
	b.picture("documents")

	b.click("#documents tr:first-child button")
	b.until(`document.getElementById("confirm").open`)
	b.picture("confirm")
	b.enter() // Cancel has the focus
	b.until(`!document.getElementById("confirm").open`)
	require.Len(t, h.documents, 2)
	b.click("#documents tr:first-child button")
	b.until(`document.getElementById("confirm").open`)
	// The dialog may still be moving into place, so a click at coordinates can miss the button: press the button itself while it is there.
	b.until(`document.getElementById("confirm").open && document.getElementById("confirm-yes").click(), document.querySelectorAll("#documents tr").length === 1`)
	require.Equal(t, "documents-title", eval[string](b, "document.activeElement.id"))
	require.Contains(t, b.text("#announce"), "one.txt was deleted")

	h.mu.Lock()
	h.refusal = &ingest.Error{Class: ingest.Unsupported, Message: "one.txt: programs are not read"}
	h.mu.Unlock()
	b.do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{one}))
	b.click("#upload-send")
	b.until(`document.querySelector("#uploads .failed").textContent.includes("programs are not read")`)
}

func TestPageWorksByKeyboard(t *testing.T) {
	h := serve(t, sample, server.Config{})
	b := openPage(t, h, 1280, 800)
	shift := chromedp.KeyModifiers(chromedp.ModifierShift)
	b.press("first line")
	b.press(kb.Enter, shift)
	b.press("second line")
	require.Equal(t, "first line\nsecond line", eval[string](b, `document.getElementById("question").value`))
	b.enter()
	b.until(answered)
	to := func(condition string, options ...chromedp.KeyOption) {
		t.Helper()
		for range 30 {
			if eval[bool](b, "!!(%s)", condition) {
				require.NotEqual(t, "none", eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"), "the focus must be seen")
				return
			}
			b.press(kb.Tab, options...)
		}
		t.Fatalf("the keyboard does not reach %s", condition)
	}
	to(`document.activeElement.matches(".chip")`, shift)
	b.enter()
	b.until(`document.querySelector("mark")`)
	b.press(kb.Tab) // from the panel to its button
	require.Equal(t, "source-close", eval[string](b, "document.activeElement.id"))
	b.enter()
	b.until(`document.getElementById("source").hidden && document.activeElement.matches(".chip")`)
	to(`document.activeElement.matches("summary")`)
	b.enter()
	require.True(t, eval[bool](b, `document.querySelector("details").open`))
	to(`document.activeElement.id === "tab-documents"`, shift)
	b.enter()
	b.until(`!document.getElementById("view-documents").hidden`)
	require.Equal(t, "page", eval[string](b, `document.activeElement.getAttribute("aria-current")`))
	to(`document.activeElement.matches(".skip")`, shift)
}

// hostile is text that would do harm as markup, and a word that no screen is wide enough for.
const hostile = `<img src=x onerror="window.harm=1"><script>window.harm=1</script>`

var endless = strings.Repeat("abcdefghij", 40)

func hostileSample(_ context.Context, q answer.Question, yield func(answer.Event, error) bool) {
	a := sampleAnswer()
	a.Question, a.Query = q.Text, endless
	a.Text += " " + hostile + endless
	for i := range a.Citations {
		a.Citations[i].Title, a.Citations[i].Path = hostile+endless, endless
	}
	a.Sources[0].Passage.Title = hostile + endless
	_ = yield(answer.Event{Sources: a.Sources}, nil) && yield(answer.Event{Text: a.Text}, nil) && yield(answer.Event{Done: a}, nil)
}

func TestPageFitsAPhone(t *testing.T) {
	h := serve(t, hostileSample, server.Config{})
	h.documents = []store.Document{{ID: 1, Corpus: strings.Repeat("c", 64), Path: endless, Title: hostile + endless, State: ingest.Failed, Error: endless, Warnings: []string{endless}}}
	h.corpora = []store.Corpus{{Name: strings.Repeat("c", 64), Documents: 1}, {Name: "d"}}
	b := openPage(t, h, 390, 844)
	fits := func(what string) {
		t.Helper()
		b.picture("phone-" + what)
		require.Empty(t, eval[[]string](b, `[...document.querySelectorAll("*")].filter((e) => e.checkVisibility() && !e.closest(".visually-hidden, .skip, thead") && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 200))`), what)
		require.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), 390, what)
		require.Empty(t, eval[[]string](b, `[...document.querySelectorAll("button, input, select, textarea, summary, .chip")]
			.filter((e) => e.checkVisibility()).filter((e) => { const r = e.getBoundingClientRect(); return r.width < 24 || r.height < 24; }).map((e) => e.outerHTML)`), "targets of at least 24 pixels")
	}
	fits("welcome")
	b.ask(endless)
	b.until(answered)
	b.click("summary")
	fits("answer")
	b.click(".chip")
	b.until(`document.querySelector("mark")`)
	fits("source")
	b.press(kb.Escape)
	b.click("#tab-documents")
	b.until(`document.querySelector("#documents tr")`)
	fits("documents")
	require.False(t, eval[bool](b, "'harm' in window"), "text of documents is never markup")
}

// contrast lists the visible texts whose contrast is under WCAG 2's AA: 4.5, or 3 for large text.
const contrast = `(() => {
	const rgba = (s) => { const n = s.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
	const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] + under[i] * (1 - top[3]));
	const background = (e) => { const layers = []; for (; e; e = e.parentElement) layers.unshift(rgba(getComputedStyle(e).backgroundColor)); return layers.reduce((under, top) => over(top, under), [255, 255, 255]); };
	const luminance = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
	const bad = [];
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node; node = walk.nextNode();) {
		const e = node.parentElement;
		if (!node.data.trim() || !e.checkVisibility() || e.closest(":disabled, .visually-hidden, .skip, script")) continue;
		const style = getComputedStyle(e), back = background(e), size = parseFloat(style.fontSize);
		const [a, b] = [luminance(over(rgba(style.color), back)), luminance(back)].sort((x, y) => y - x);
		const ratio = (a + .05) / (b + .05), need = size >= 24 || size >= 18.66 && style.fontWeight >= 700 ? 3 : 4.5;
		if (ratio < need) bad.push(e.tagName + "." + e.className + " " + ratio.toFixed(2) + ": " + node.data.trim().slice(0, 30));
	}
	return bad;
})()`

// unnamed lists what a screen reader could not name, and other faults that need no judgement to find.
const unnamed = `(() => {
	const bad = [];
	const name = (e) => e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join("")
		|| [...e.labels ?? []].map((l) => l.textContent).join("") || e.textContent.trim();
	for (const e of document.querySelectorAll("button, a, input, select, textarea, summary, [role=img], dialog, aside, nav, section")) if (!name(e)) bad.push("no name: " + e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll("img:not([alt])")) bad.push("no alt: " + e.outerHTML);
	for (const id of [...document.querySelectorAll("[id]")].map((e) => e.id).filter((id, i, all) => all.indexOf(id) !== i)) bad.push("id twice: " + id);
	for (const e of document.querySelectorAll("[aria-describedby]")) if (!document.getElementById(e.getAttribute("aria-describedby"))) bad.push("describes nothing: " + e.id);
	const levels = [...document.querySelectorAll("h1, h2, h3, h4")].filter((e) => e.checkVisibility()).map((e) => Number(e.tagName[1]));
	if (levels.filter((l) => l === 1).length !== 1) bad.push("one h1 is needed: " + levels);
	for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) bad.push("tabindex: " + e.id);
	if (!document.documentElement.lang || !document.title) bad.push("no language or title");
	return bad;
})()`

func TestPageIsAccessible(t *testing.T) {
	h := serve(t, func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		switch q.Text {
		case "nothing":
			yield(answer.Event{Done: &answer.Answer{Question: q.Text, Query: q.Text, Text: answer.Refusal, Abstained: true, Reason: "nothing"}}, nil)
		case "fail":
			yield(answer.Event{}, llm.ErrUnhealthy)
		default:
			sample(ctx, q, yield)
		}
	}, server.Config{})
	h.documents = []store.Document{
		{ID: 1, Corpus: "a", Path: "hr/leave.md", Title: "Leave", State: ingest.Live, Live: true, Passages: 12, Warnings: []string{"page 3 has no text"}},
		{ID: 2, Corpus: "a", Path: "x.pdf", State: ingest.Failed, Error: "x.pdf is encrypted"}, {ID: 3, Corpus: "a", Path: "y.txt", State: ingest.Split},
	}
	h.corpora = []store.Corpus{{Name: "a", Documents: 1}, {Name: "b"}}
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			b := openPage(t, h, 1280, 800)
			if scheme == "dark" {
				b.dark()
			}
			check := func(what string) {
				t.Helper()
				require.Empty(t, eval[[]string](b, "%s", contrast), what)
				require.Empty(t, eval[[]string](b, "%s", unnamed), what)
				require.Empty(t, b.axe(), what)
				b.picture(scheme + "-" + what)
			}
			check("welcome")
			for _, question := range []string{"nothing", "fail", "How many days of leave do I have?"} {
				b.ask(question)
				b.until(`document.querySelector("article:last-of-type :is(details, .error)")`)
			}
			b.click("article:last-of-type summary")
			b.click("article:last-of-type .chip")
			b.until(`document.querySelector("mark")`)
			check("ask")
			b.press(kb.Escape)
			b.click("#tab-documents")
			b.until(`document.querySelector("#documents tr")`)
			check("documents")
			b.click("#documents tr button")
			b.until(`document.getElementById("confirm").open`)
			check("dialog")
		})
	}
}

// axe runs axe-core, when the file RAGD_AXE (axe.min.js of the npm package axe-core) is there, and lists what it finds.
func (b *tab) axe() (violations []string) {
	b.Helper()
	path := os.Getenv("RAGD_AXE")
	if path == "" {
		return nil
	}
	script, err := os.ReadFile(path)
	require.NoError(b.T, err)
	b.do(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = chromedp.EvaluateAsDevTools[json.RawMessage](string(script)+"; null")(ctx, t)
		return v, err
	})
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](`axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 120)).join(" | ")))`, chromedp.EvalAwaitPromise))
	require.NoError(b.T, err)
	return found
}
