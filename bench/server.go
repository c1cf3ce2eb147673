package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Server is a running llama-server of a peer.
type Server struct {
	name    string
	url     string
	cmd     *exec.Cmd
	exited  chan struct{}
	stderr  bytes.Buffer
	Started time.Duration // from the start of the process until it answers that it is ready
}

// serverPatience is how long a server may take to load a model.
const serverPatience = 2 * time.Minute

// Serve starts the peer's llama-server with its prompt cache on and that many slots of context tokens each.
func (p *Peer) Serve(ctx context.Context, model string, slots, context int) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("bench: llama-server of %s: %w", p.Name, err)
	}
	s := &Server{name: p.Name, url: fmt.Sprintf("http://127.0.0.1:%d", port), exited: make(chan struct{})}
	threads := strconv.Itoa(p.threads)
	s.cmd = exec.CommandContext(ctx, filepath.Join(p.dir, "llama-server"), "-m", model, "-t", threads, "-tb", threads, "-np", strconv.Itoa(slots),
		"-c", strconv.Itoa(slots*context), "--host", "127.0.0.1", "--port", strconv.Itoa(port))
	s.cmd.Stderr = &s.stderr
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: llama-server of %s: %w", p.Name, err)
	}
	go func() {
		_ = s.cmd.Wait() // Close asks it to end; an early end is told by ready
		close(s.exited)
	}()
	if err := s.ready(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.Started = time.Since(begin)
	return s, nil
}

// freePort asks the system for a port that is free now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// ready polls until the server answers that it has loaded the model.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/health", nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.exited:
			return fmt.Errorf("bench: llama-server of %s ended: %s", s.name, tail(s.stderr.Bytes()))
		case <-ctx.Done():
			return fmt.Errorf("bench: llama-server of %s is not ready: %w", s.name, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Close ends the server.
func (s *Server) Close() {
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.exited
}

// Resident returns the memory that the server occupies, in bytes.
func (s *Server) Resident() (int64, error) { return resident(strconv.Itoa(s.cmd.Process.Pid)) }

// completion is the part of llama-server's request that is used here.
type completion struct {
	Prompt      []int32 `json:"prompt"`
	MaxTokens   int     `json:"n_predict"`
	Temperature float64 `json:"temperature"`
	Stream      bool    `json:"stream"`
	Cache       bool    `json:"cache_prompt"`
	IgnoreEnd   bool    `json:"ignore_eos"`
}

// Ask sends a prompt, reads maxTokens greedy tokens and returns when they came.
func (s *Server) Ask(ctx context.Context, prompt []int32, maxTokens int) (Answer, error) {
	body, err := json.Marshal(completion{Prompt: prompt, MaxTokens: maxTokens, Stream: true, Cache: true, IgnoreEnd: true})
	if err != nil {
		return Answer{}, err
	}
	begin := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/completion", bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return Answer{}, fmt.Errorf("bench: llama-server of %s: %w", s.name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // the status is what matters
		return Answer{}, fmt.Errorf("bench: llama-server of %s answers %s: %s", s.name, response.Status, tail(text))
	}
	answer, err := readCompletion(response.Body, begin, time.Now)
	if err != nil {
		return Answer{}, fmt.Errorf("bench: llama-server of %s: %w", s.name, err)
	}
	return answer, nil
}

// readCompletion reads the events of a streamed completion.
func readCompletion(in io.Reader, begin time.Time, now func() time.Time) (Answer, error) {
	var a Answer
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20) // the last event repeats the settings
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct {
			Stop      bool    `json:"stop"`
			Tokens    []int32 `json:"tokens"`
			Content   string  `json:"content"`
			Predicted int     `json:"tokens_predicted"`
			Timings   struct {
				Cached int `json:"cache_n"`
			} `json:"timings"`
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return a, fmt.Errorf("event %q: %w", tail([]byte(data)), err)
		}
		if a.First == 0 {
			a.First = now().Sub(begin)
		}
		if event.Stop {
			a.Tokens, a.Cached, a.Total = event.Predicted, event.Timings.Cached, now().Sub(begin)
			return a, nil
		}
	}
	if err := lines.Err(); err != nil {
		return a, err
	}
	return a, errors.New("the answer ended early")
}

// resident reads how much memory a process occupies: pid, or "self".
func resident(pid string) (int64, error) {
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return 0, fmt.Errorf("bench: resident memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("bench: resident memory: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, errors.New("bench: resident memory: the system does not tell")
}
