package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

var binary string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "otelcol-driftline")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "otelcol-driftline")
	build := exec.Command("go", "build", "-ldflags", "-X driftline/internal/version.Version=1.2.3-test", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the collector: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// run runs the built collector and returns what it printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestVersion(t *testing.T) {
	out, err := run(t, "--version")
	require.NoError(t, err, out)
	require.Equal(t, "otelcol-driftline 1.2.3-test\n", out)
}

func TestShippedConfigIsValid(t *testing.T) {
	path, err := filepath.Abs("../../otelcol-config.yaml")
	require.NoError(t, err)
	out, err := run(t, "validate", "--config", path)
	require.NoError(t, err, out)
}

var fence = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestDocumentedConfigsAreValid(t *testing.T) {
	page, err := os.ReadFile("../../docs/collector.md")
	require.NoError(t, err)
	blocks := fence.FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 4)
	for i, block := range blocks {
		out, err := run(t, "validate", "--config", "yaml:"+block[1])
		require.NoError(t, err, "block %d: %s", i+1, out)
	}
}

func TestBadConfigNamesEveryKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
receivers: {otlp: {protocols: {grpc: {endpoint: 127.0.0.1:0}}}}
processors:
  genaisegment:
    linger: 0s
    max_spans: 100
    max_label_values: -1
    attributes: [tenant, ""]
exporters: {nop: }
service: {pipelines: {traces: {receivers: [otlp], processors: [genaisegment], exporters: [nop]}}}
`), 0o600))
	out, err := run(t, "validate", "--config", path)
	require.Error(t, err)
	for _, want := range []string{"processors::genaisegment", "'linger'", "'max_spans_per_trace' (10000) must not be more than 'max_spans' (100)", "'max_label_values'", "'attributes[1]'"} {
		require.Contains(t, out, want)
	}

	require.NoError(t, os.WriteFile(path, []byte("processors: {genaisegment: {lingr: 1s}}\nexporters: {nop: }\nreceivers: {nop: }\n"+
		"service: {pipelines: {traces: {receivers: [nop], processors: [genaisegment], exporters: [nop]}}}\n"), 0o600))
	out, err = run(t, "validate", "--config", path)
	require.Error(t, err)
	require.Contains(t, out, "lingr")
}

// The manifest for those who build their own must not drift from this binary.
func TestManifestListsTheSameComponents(t *testing.T) {
	raw, err := os.ReadFile("builder-config.yaml")
	require.NoError(t, err)
	type module struct{ Gomod, Import string }
	var manifest struct{ Extensions, Receivers, Processors, Exporters, Providers []module }
	require.NoError(t, yaml.Unmarshal(raw, &manifest))
	source := ""
	for _, name := range []string{"components.go", "main.go"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		source += string(text)
	}
	gomod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)

	// The builder makes the output folder but none around it, and replaces are seen from there.
	var out struct {
		Dist struct {
			OutputPath string `yaml:"output_path"`
		}
		Replaces []string
	}
	require.NoError(t, yaml.Unmarshal(raw, &out))
	require.DirExists(t, filepath.Dir(filepath.Clean(out.Dist.OutputPath)))
	require.Len(t, out.Replaces, 1)
	_, checkout, _ := strings.Cut(out.Replaces[0], " => ")
	require.FileExists(t, filepath.Join(out.Dist.OutputPath, checkout, "go.mod"))

	listed := map[string]bool{}
	for _, group := range [][]module{manifest.Extensions, manifest.Receivers, manifest.Processors, manifest.Exporters, manifest.Providers} {
		for _, m := range group {
			path, version, _ := strings.Cut(m.Gomod, " ")
			if m.Import != "" {
				path = m.Import
			} else {
				require.Contains(t, string(gomod), path+" "+version, "the manifest and go.mod must name one version")
			}
			listed[path] = true
			require.Contains(t, source, `"`+path+`"`, "the binary lacks a component of the manifest")
		}
	}
	f, err := factories()
	require.NoError(t, err)
	const providers = 3
	require.Len(t, listed, distinct(f.Extensions)+distinct(f.Receivers)+distinct(f.Processors)+distinct(f.Exporters)+providers)
}

// distinct counts factories without their old names.
func distinct[F component.Factory](factories map[component.Type]F) int {
	types := map[component.Type]bool{}
	for _, f := range factories {
		types[f.Type()] = true
	}
	return len(types)
}

type sink struct {
	ptraceotlp.UnimplementedGRPCServer
	mu  sync.Mutex
	got []ptrace.Traces
}

func (s *sink) Export(_ context.Context, r ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, r.Traces())
	return ptraceotlp.NewExportResponse(), nil
}

func (s *sink) spans() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, td := range s.got {
		n += td.SpanCount()
	}
	return n
}

// A real collector takes spans over OTLP and passes them on, marked; a shutdown sends
// what it still held.
func TestSpansGoThroughTheBinary(t *testing.T) {
	backend := &sink{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	ptraceotlp.RegisterGRPCServer(server, backend)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	intake, health := freeAddress(t), freeAddress(t)
	config := fmt.Sprintf(`yaml:
extensions: {health_check: {endpoint: %q}}
receivers: {otlp: {protocols: {grpc: {endpoint: %q}}}}
processors: {genaisegment: {linger: 500ms}}
exporters: {otlp_grpc: {endpoint: %q, tls: {insecure: true}}}
service:
  extensions: [health_check]
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], processors: [genaisegment], exporters: [otlp_grpc]}}
`, health, intake, listener.Addr())
	var log strings.Builder
	cmd := exec.CommandContext(t.Context(), binary, "--config", config)
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + health)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, 20*time.Second, 50*time.Millisecond)

	connection, err := grpc.NewClient(intake, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer connection.Close()
	client := ptraceotlp.NewGRPCClient(connection)
	_, err = client.Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(oneCall(1, true)))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return backend.spans() == 1 }, 20*time.Second, 50*time.Millisecond)
	root := backend.got[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	marked, ok := root.Attributes().Get("driftline.genai")
	require.True(t, ok && marked.Bool())

	// Without its root this one would wait for the checkpoint.
	_, err = client.Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(oneCall(2, false)))
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), log.String())
	require.Equal(t, 2, backend.spans(), "a shutdown drains")
}

func oneCall(trace byte, isRoot bool) ptrace.Traces {
	td := ptrace.NewTraces()
	span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetTraceID(pcommon.TraceID{trace})
	span.SetSpanID(pcommon.SpanID{trace})
	if !isRoot {
		span.SetParentSpanID(pcommon.SpanID{9})
	}
	span.SetName("chat m")
	span.SetKind(ptrace.SpanKindClient)
	now := time.Now()
	span.SetStartTimestamp(pcommon.NewTimestampFromTime(now.Add(-time.Second)))
	span.SetEndTimestamp(pcommon.NewTimestampFromTime(now))
	span.Attributes().PutStr("gen_ai.operation.name", "chat")
	span.Attributes().PutStr("gen_ai.request.model", "m")
	return td
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
