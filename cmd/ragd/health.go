package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

type healthCmd struct {
	URL string `help:"Of the server." default:"http://127.0.0.1:8080"`
}

// Run asks a server whether it is ready: a health check for images without a shell.
func (k healthCmd) Run(ctx ctxBinding) error {
	limited, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(limited, http.MethodGet, strings.TrimRight(k.URL, "/")+"/readyz?verbose", nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		return err
	}
	fmt.Print(string(text))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server is not ready: %s", response.Status)
	}
	return nil
}
