package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"driftline/internal/bench/report"
)

// rssResult is what a collector's process took.
type rssResult struct {
	bound, idle, peak, limit, counted int64
	spans                             int
	evicted                           float64
}

const rssConfig = `
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: %s
processors:
  genaisegment:
    max_memory_mib: %d
    max_traces: 1000000
    max_spans: 10000000
exporters:
  nop:
service:
  telemetry:
    logs:
      level: error
    metrics:
      readers:
        - pull:
            exporter:
              prometheus:
                host: 127.0.0.1
                port: %d
                without_type_suffix: true
  pipelines:
    traces:
      receivers: [otlp]
      processors: [genaisegment]
      exporters: [nop]
`

// memoryLimit is the GOMEMLIMIT that the processor's page advises for a bound, in bytes.
// The process takes about 30 MiB beside what Go's limit covers: its program's pages.
func memoryLimit(bound int64) int64 { return min(bound*8/5+60<<20, 2*bound+4<<20) }

// measureRSS floods the collector once with each bound.
func (o options) measureRSS() error {
	var all []rssResult
	for text := range strings.SplitSeq(o.boundsMiB, ",") {
		bound, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || bound < 1 {
			return fmt.Errorf("-rss-bounds: %q is no number of MiB", text)
		}
		r, err := o.rss(o.collector, bound, o.flood)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	return o.renderRSS(all, o.flood)
}

// rss runs the collector at path with a bound on the processor's memory, floods it with
// traces whose roots never come for a time, and reads how much memory its process takes.
func (o options) rss(path string, boundMiB int, flood time.Duration) (r rssResult, err error) {
	r.bound = int64(boundMiB) << 20
	dir, err := os.MkdirTemp("", "processorbench")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	ports, err := freePorts(2)
	if err != nil {
		return r, err
	}
	endpoint := fmt.Sprintf("127.0.0.1:%d", ports[0])
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, rssConfig, endpoint, boundMiB, ports[1]), 0o600); err != nil {
		return r, err
	}
	r.limit = memoryLimit(r.bound)
	var log bytes.Buffer
	cmd := exec.Command(path, "--config", config)
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%d", r.limit))
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		return r, fmt.Errorf("start the collector: %w", err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return r, err
	}
	defer conn.Close()
	client := ptraceotlp.NewGRPCClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), flood+time.Minute)
	defer cancel()
	if _, err := client.Export(ctx, ptraceotlp.NewExportRequest(), grpc.WaitForReady(true)); err != nil {
		return r, fmt.Errorf("reach the collector: %w: %s", err, log.String())
	}
	time.Sleep(2 * time.Second)
	if r.idle, err = residentSet(cmd.Process.Pid); err != nil {
		return r, err
	}
	c := newCorpus(o.seed, 0.5, o.services, o.batch)
	for end := time.Now().Add(flood); time.Now().Before(end); {
		batches, _ := c.step(o.rate, time.Now())
		for _, td := range batches {
			removeRoots(td)
			r.spans += td.SpanCount()
			if _, err := client.Export(ctx, ptraceotlp.NewExportRequestFromTraces(td)); err != nil {
				return r, fmt.Errorf("send: %w", err)
			}
		}
		now, err := residentSet(cmd.Process.Pid)
		if err != nil {
			return r, err
		}
		r.peak = max(r.peak, now)
	}
	metrics, err := scrape(fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[1]))
	if err != nil {
		return r, err
	}
	r.counted = int64(sumOf(metrics, "otelcol_processor_genaisegment_memory_usage"))
	r.evicted = sumOf(metrics, "otelcol_processor_genaisegment_evictions")
	return r, nil
}

func removeRoots(td ptrace.Traces) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			ss.Spans().RemoveIf(func(s ptrace.Span) bool { return s.ParentSpanID().IsEmpty() })
		}
	}
}

func freePorts(n int) ([]int, error) {
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out, nil
}

// residentSet reads the memory that a process takes, in bytes.
func residentSet(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the collector's memory: %w", err)
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0, fmt.Errorf("read the collector's memory: process %d has none, it ended", pid)
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}

func scrape(url string) (string, error) {
	resp, err := http.Get(url)
	if err != nil {
		return "", fmt.Errorf("read the collector's metrics: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// sumOf adds up a metric's series.
func sumOf(text, name string) float64 {
	sum := 0.0
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:_total)?(?:_bytes)?(?:\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(text, -1) {
		v, _ := strconv.ParseFloat(m[1], 64)
		sum += v
	}
	return sum
}

// renderRSS prints and writes the section on a process's memory.
func (o options) renderRSS(all []rssResult, flood time.Duration) error {
	mib := func(n int64) string { return fmt.Sprintf("%.0f", float64(n)/(1<<20)) }
	var table [][]string
	worst := 0.0
	for _, r := range all {
		allowed := 2*r.bound + r.idle
		worst = max(worst, float64(r.peak)/float64(allowed))
		table = append(table, []string{mib(r.bound), mib(r.limit), mib(r.counted), mib(r.idle), mib(r.peak), mib(allowed), fmt.Sprint(r.spans), fmt.Sprintf("%.0f", r.evicted)})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## The memory of a collector's process\n\n")
	fmt.Fprintf(&b, "otelcol-driftline with a nop exporter, for each `max_memory_mib` flooded over OTLP for %s with spans of traces without roots; load average %s, last run %s. `go run ./internal/bench/processorbench -rss bin/otelcol-driftline`.\n\n",
		flood, load(), time.Now().UTC().Format(time.DateOnly))
	b.WriteString(report.Table([]string{"bound (MiB)", "GOMEMLIMIT (MiB)", "counted at the end (MiB)", "idle RSS (MiB)", "peak RSS (MiB)", "allowed: 2x bound + idle (MiB)", "#spans", "#traces evicted"}, table))
	fmt.Println(b.String())
	fmt.Printf("RATIO processor_rss_of_allowed=%.3f\n", worst)
	if o.out == "" {
		return nil
	}
	return report.Replace(o.out, "processor-rss", b.String())
}
