package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"driftline/internal/engine/enginetest"
)

// Every line of the page's table of what the endpoint does not do is sent, and answered as the page says.
func TestEveryRefusalOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/embedded.md")
	must(t, err)
	_, section, found := strings.Cut(string(page), "## What it does not do\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("docs/embedded.md has no such section")
	}
	e := enginetest.Shared(t)
	if e.External() {
		t.Fatalf("this test is about the embedded engine: unset %s", enginetest.EnvDSN)
	}
	db := e.Database(t)
	post(t, e, in(db), "CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a")
	sent := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 4 || strings.TrimSpace(cells[0]) == "not here" || strings.HasPrefix(cells[0], " ---") {
			continue
		}
		sent++
		what := strings.TrimSpace(cells[0])
		code, text, ok := strings.Cut(strings.TrimSpace(cells[2]), ": ")
		example := strings.Split(cells[1], "`")
		if !ok || len(example) != 3 {
			t.Fatalf("%s: the line is not of the table's form", what)
		}
		t.Run(what, func(t *testing.T) {
			first, rest := example[1], strings.TrimSpace(example[2])
			if first == "clickhouse://" {
				nativeRefusal(t, e, code, text)
				return
			}
			params, header, statement := in(db), http.Header{}, first
			switch {
			case strings.HasPrefix(first, "?"):
				more, err := url.ParseQuery(first[1:])
				must(t, err)
				for k := range more {
					params.Set(k, more.Get(k))
				}
				statement = rest
			case strings.HasPrefix(first, "multipart/"):
				header.Set("Content-Type", first+"; boundary=x")
				statement = rest
			case strings.HasPrefix(first, "Content-Encoding: "):
				header.Set("Content-Encoding", strings.TrimPrefix(first, "Content-Encoding: "))
				statement = rest
			}
			status, h, answer, err := call(t, e, http.MethodPost, params, strings.NewReader(statement), header)
			must(t, err)
			if status < 400 || h.Get("X-ClickHouse-Exception-Code") != code || !strings.Contains(answer, text) {
				t.Errorf("%s: status %d, code %s, %q; the page says %s: %s", statement, status, h.Get("X-ClickHouse-Exception-Code"), answer, code, text)
			}
		})
	}
	if sent < 30 {
		t.Errorf("only %d lines found in the table", sent)
	}
}

func nativeRefusal(t *testing.T, e *enginetest.Engine, code, text string) {
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{strings.TrimPrefix(e.URL(t), "http://")}, Protocol: clickhouse.Native})
	must(t, err)
	defer conn.Close()
	err = conn.Ping(context.Background())
	if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), fmt.Sprint(code)) {
		t.Errorf("a native client got %v; the page says %s: %s", err, code, text)
	}
}
