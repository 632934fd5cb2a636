// Command fakellm runs the scripted OpenAI-compatible test server on loopback.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sort"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"driftline/internal/fakellm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		stop()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var listen, logFile string
	var scripts map[string]string
	cmd := &cobra.Command{
		Use:   "fakellm",
		Short: "A local OpenAI-compatible server whose answers are scripted",
		Long: `fakellm answers /v1/chat/completions, /v1/responses and /v1/embeddings with synthetic tokens, by script.
A request's script is named by or contained in its X-Fakellm-Script header, or registered under its model with
--script or POST /_script. GET /_log?wait=5s returns what the server saw of each attempt, as JSON lines.

A script is a list of steps, one per attempt: a status (or stall, or reset), a delay before the headers, options:
  503@120ms,429;retry-after=1,200@50ms;ttft=300ms;gap=10ms;tokens=40
  options: ttft, gap, tokens, stall-after, reset-after, pause, pause-after, retry-after, tool
A bar begins the steps for the conversation's next call: 200;tool=lookup+search|503,200`,
		Example: `  fakellm --listen 127.0.0.1:8090 --script gpt-flaky=503,503,200
  curl -s 127.0.0.1:8090/v1/chat/completions -H 'x-fakellm-script: 503,200' -d '{"model":"m","messages":[]}'`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: false,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd, listen, logFile, scripts)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8090", "address to listen on; port 0 takes a free one")
	cmd.Flags().StringVar(&logFile, "log-file", "", "append each finished attempt to this file as a JSON line")
	// StringToString would cut scripts at their commas.
	cmd.Flags().Var((*scriptFlag)(&scripts), "script", "model=script, may be repeated")
	return cmd
}

func run(cmd *cobra.Command, listen, logFile string, texts map[string]string) error {
	opts := fakellm.Options{Scripts: map[string]fakellm.Script{}}
	keys := make([]string, 0, len(texts))
	for key := range texts {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	var errs []error
	for _, key := range keys {
		script, err := fakellm.ParseScript(texts[key])
		if err != nil {
			errs = append(errs, fmt.Errorf("--script %s: %w", key, err))
		}
		opts.Scripts[key] = script
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if logFile != "" {
		f, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("--log-file: %w", err)
		}
		defer f.Close()
		opts.Log = f
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := fakellm.New(opts)
	web := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second}
	if err := json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"base_url": "http://" + l.Addr().String() + "/v1"}); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-cmd.Context().Done():
	}
	server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := web.Shutdown(ctx); err != nil {
		_ = web.Close() // clients that keep a connection busy do not hold up the end
	}
	return server.LogError()
}

// scriptFlag collects model=script pairs.
type scriptFlag map[string]string

func (f *scriptFlag) String() string { return "" }
func (f *scriptFlag) Type() string   { return "model=script" }

func (f *scriptFlag) Set(text string) error {
	for i := range text {
		if text[i] == '=' && i > 0 {
			if *f == nil {
				*f = scriptFlag{}
			}
			(*f)[text[:i]] = text[i+1:]
			return nil
		}
	}
	return errors.New("want model=script, such as gpt-flaky=503,503,200")
}
