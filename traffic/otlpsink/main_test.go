package main

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

func TestSinkTakesBothEncodings(t *testing.T) {
	traces := ptrace.NewTraces()
	traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName("chat")
	request := ptraceotlp.NewExportRequestFromTraces(traces)
	proto, err := request.MarshalProto()
	require.NoError(t, err)
	asJSON, err := request.MarshalJSON()
	require.NoError(t, err)
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, err = zip.Write(proto)
	require.NoError(t, err)
	require.NoError(t, zip.Close())

	var out bytes.Buffer
	sink := newSink(&out)
	post := func(path, media, encoding string, body []byte) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", media)
		r.Header.Set("Content-Encoding", encoding)
		w := httptest.NewRecorder()
		sink.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, 200, post("/v1/traces", "application/x-protobuf", "", proto))
	require.Equal(t, 200, post("/v1/traces", "application/x-protobuf", "gzip", zipped.Bytes()))
	require.Equal(t, 200, post("/v1/traces", "application/json; charset=utf-8", "", asJSON))
	require.Equal(t, 200, post("/v1/metrics", "application/json", "", []byte("{}")))
	require.Equal(t, 400, post("/v1/traces", "application/x-protobuf", "", []byte("no protobuf")))
	require.Equal(t, 400, post("/v1/traces", "application/x-protobuf", "gzip", proto))
	require.Equal(t, 415, post("/v1/traces", "text/plain", "", proto))

	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	require.Len(t, lines, 3)
	for _, line := range lines {
		got, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		require.NoError(t, err)
		require.Equal(t, "chat", got.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Name())
	}
}
