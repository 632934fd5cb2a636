package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServesUntilCancelledAndWritesItsLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "requests.jsonl")
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	cmd := command()
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--log-file", file, "--script", "m=503,200"})
	cmd.SetOut(in)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()

	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err)
	var ready struct {
		BaseURL string `json:"base_url"`
	}
	require.NoError(t, json.Unmarshal(line, &ready))
	for _, want := range []int{503, 200} {
		resp, err := http.Post(ready.BaseURL+"/chat/completions", "application/json", strings.NewReader(`{"model":"m"}`))
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, want, resp.StatusCode)
	}
	cancel()
	require.NoError(t, <-ended)
	log, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(log), "\n"))
}

func TestWrongFlagsAreNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"scripts":     {[]string{"--script", "a=99", "--script", "b=200;x=1"}, []string{"--script a", "--script b"}},
		"no model":    {[]string{"--script", "=200"}, []string{"want model=script"}},
		"log folder":  {[]string{"--log-file", filepath.Join(t.TempDir(), "no", "file")}, []string{"--log-file"}},
		"port in use": {[]string{"--listen", l.Addr().String()}, []string{"--listen", l.Addr().String()}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command()
			cmd.SetArgs(c.args)
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			err := cmd.ExecuteContext(t.Context())
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}
