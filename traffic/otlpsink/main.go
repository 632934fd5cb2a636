// Command otlpsink is a small OTLP/HTTP receiver that appends every trace export request to a file, one line of
// OTLP JSON each. What it writes is raw: mkfixture makes fixtures of it and drops all content.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

const maxBody = 64 << 20

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var listen, out string
	cmd := &cobra.Command{
		Use:          "otlpsink",
		Short:        "Append OTLP/HTTP traces to a file as OTLP JSON lines",
		Example:      "  otlpsink --listen 127.0.0.1:4318 --out raw.jsonl",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return run(cmd, listen, out) },
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:4318", "address to listen on; port 0 takes a free one")
	cmd.Flags().StringVar(&out, "out", "traces.jsonl", "file to append to")
	if err := cmd.ExecuteContext(ctx); err != nil {
		stop()
		os.Exit(1)
	}
}

func run(cmd *cobra.Command, listen, out string) error {
	f, err := os.OpenFile(out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer f.Close()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	web := &http.Server{Handler: newSink(f), ReadHeaderTimeout: 10 * time.Second}
	if err := json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"otlp": "http://" + l.Addr().String()}); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-cmd.Context().Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := web.Shutdown(ctx); err != nil {
		return fmt.Errorf("shutdown: %w", err)
	}
	return f.Sync()
}

// sink writes the traces it is sent; metrics and logs are taken and dropped.
type sink struct {
	mu  sync.Mutex
	out io.Writer
}

func newSink(out io.Writer) http.Handler {
	s := &sink{out: out}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", s.traces)
	drop := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody))
	}
	mux.HandleFunc("POST /v1/metrics", drop)
	mux.HandleFunc("POST /v1/logs", drop)
	return mux
}

func (s *sink) traces(w http.ResponseWriter, r *http.Request) {
	status, err := s.take(w, r)
	if err != nil {
		http.Error(w, err.Error(), status)
	}
}

// take reads one export request, files it and answers in the request's encoding.
func (s *sink) take(w http.ResponseWriter, r *http.Request) (int, error) {
	var body io.Reader = http.MaxBytesReader(w, r.Body, maxBody)
	if r.Header.Get("Content-Encoding") == "gzip" {
		zip, err := gzip.NewReader(body)
		if err != nil {
			return http.StatusBadRequest, err
		}
		body = io.LimitReader(zip, maxBody)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return http.StatusBadRequest, err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return http.StatusUnsupportedMediaType, err
	}
	request := ptraceotlp.NewExportRequest()
	answer := ptraceotlp.NewExportResponse().MarshalProto
	switch media {
	case "application/x-protobuf":
		err = request.UnmarshalProto(data)
	case "application/json":
		err = request.UnmarshalJSON(data)
		answer = ptraceotlp.NewExportResponse().MarshalJSON
	default:
		return http.StatusUnsupportedMediaType, errors.New("want application/x-protobuf or application/json")
	}
	if err != nil {
		return http.StatusBadRequest, fmt.Errorf("body is not an OTLP trace export request: %w", err)
	}
	line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(request.Traces())
	if err != nil {
		return http.StatusInternalServerError, err
	}
	s.mu.Lock()
	_, err = s.out.Write(append(bytes.TrimSpace(line), '\n'))
	s.mu.Unlock()
	if err != nil {
		return http.StatusInternalServerError, err
	}
	reply, err := answer()
	if err != nil {
		return http.StatusInternalServerError, err
	}
	w.Header().Set("Content-Type", media)
	_, err = w.Write(reply)
	return http.StatusInternalServerError, err
}
