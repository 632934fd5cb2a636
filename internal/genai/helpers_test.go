package genai

import (
	"fmt"
	"math"
	"testing"

	"driftline/internal/rows"
)

const base = int64(1_780_000_000) * sec

// at is an instant, in seconds from the trace's start.
func at(s float64) int64 { return base + int64(math.Round(s*1e9)) }

func secs(ns int64) float64 { return float64(ns) / 1e9 }

var (
	hostA = &Resource{ServiceName: "a", HostID: "host-a"}
	hostB = &Resource{ServiceName: "b", HostID: "host-b"}
)

// sp makes a span; options are Attr, Event, SpanKind, Status and *Resource.
func sp(id, parent, name string, from, to float64, options ...any) Span {
	s := Span{
		TraceID: "000000000000000000000000000000aa", SpanID: id, ParentID: parent, Name: name,
		Start: at(from), End: at(to), Resource: hostA, Kind: KindInternal,
	}
	for _, o := range options {
		switch o := o.(type) {
		case Attr:
			s.Attrs = append(s.Attrs, o)
		case []Attr:
			s.Attrs = append(s.Attrs, o...)
		case Event:
			s.Events = append(s.Events, o)
		case SpanKind:
			s.Kind = o
		case Status:
			s.Status = o
		case *Resource:
			s.Resource = o
		default:
			panic(fmt.Sprintf("option %T", o))
		}
	}
	return s
}

func kv(key string, value any) Attr {
	switch v := value.(type) {
	case string:
		return Attr{key, StringValue(v)}
	case int:
		return Attr{key, IntValue(int64(v))}
	case int64:
		return Attr{key, IntValue(v)}
	case float64:
		return Attr{key, DoubleValue(v)}
	case bool:
		return Attr{key, BoolValue(v)}
	case []string:
		return Attr{key, StringsValue(v...)}
	}
	panic(fmt.Sprintf("value %T", value))
}

func ev(name string, t float64, attrs ...Attr) Event {
	return Event{Name: name, Time: at(t), Attrs: attrs}
}

// chat is a model call in the standard's words.
func chat(id, parent, model string, from, to float64, options ...any) Span {
	options = append([]any{KindClient, kv("gen_ai.operation.name", "chat"), kv("gen_ai.request.model", model), kv("gen_ai.provider.name", "openai")}, options...)
	return sp(id, parent, "chat "+model, from, to, options...)
}

func agent(id, parent, name string, from, to float64, options ...any) Span {
	options = append([]any{kv("gen_ai.operation.name", "invoke_agent"), kv("gen_ai.agent.name", name)}, options...)
	return sp(id, parent, "invoke_agent "+name, from, to, options...)
}

func tool(id, parent, name string, from, to float64, options ...any) Span {
	options = append([]any{kv("gen_ai.operation.name", "execute_tool"), kv("gen_ai.tool.name", name)}, options...)
	return sp(id, parent, "execute_tool "+name, from, to, options...)
}

// post is an HTTP client span.
func post(id, parent string, from, to float64, status int, options ...any) Span {
	options = append([]any{KindClient, kv("http.request.method", "POST"), kv("server.address", "api.example.com"), kv("url.full", "https://api.example.com/v1/chat")}, options...)
	if status != 0 {
		options = append(options, kv("http.response.status_code", status))
	}
	return sp(id, parent, "POST", from, to, options...)
}

// analyze runs a finished trace and checks the laws on it.
func analyze(t *testing.T, spans ...Span) Result {
	t.Helper()
	res := Analyze(Trace{Spans: spans, Complete: true, Reason: rows.ReleaseRoot, Now: at(100_000)}, Options{})
	checkLaws(t, res)
	return res
}

func one(t *testing.T, res Result) *rows.Operation {
	t.Helper()
	if len(res.Operations) != 1 {
		for _, o := range res.Operations {
			t.Logf("operation %s %s", o.OperationID, o.Name)
		}
		t.Fatalf("got %d operations, want 1", len(res.Operations))
	}
	return res.Operations[0]
}

func operation(t *testing.T, res Result, id string) *rows.Operation {
	t.Helper()
	for _, o := range res.Operations {
		if o.OperationID == id {
			return o
		}
	}
	t.Fatalf("no operation %s among %d", id, len(res.Operations))
	return nil
}

func theRequest(t *testing.T, res Result) *rows.Request {
	t.Helper()
	if len(res.Requests) != 1 {
		t.Fatalf("got %d requests, want 1", len(res.Requests))
	}
	return res.Requests[0]
}
