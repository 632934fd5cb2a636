package genai

import (
	"fmt"
	"testing"

	"driftline/internal/rows"
)

// The kinds around the cases: the same faults as other clients, protocols and SDKs show them.

// rpc is a gRPC client span.
func rpc(id string, from, to float64, code any, options ...any) Span {
	return sp(id, "01", "google.ai.GenerativeService/GenerateContent", from, to, append([]any{
		KindClient, kv("rpc.system", "grpc"), kv("server.address", "g.example.com"), kv("rpc.grpc.status_code", code)}, options...)...)
}

// tries of one call at 0→2, 3→5 and 6→9.
func threeOf(first, second, third Span) []Span {
	for i, s := range []*Span{&first, &second, &third} {
		s.SpanID, s.Start = fmt.Sprint("t", i), at(float64(3*i))
		s.End = at([]float64{2, 5, 9}[i])
	}
	return []Span{chat("01", "", "m1", 0, 9), first, second, third}
}

func TestC1_OtherSignsOfAFailedTry(t *testing.T) {
	aborted := func() Span { return post("", "01", 0, 0, 0, StatusError, kv("error.type", "AbortError")) }
	for name, c := range map[string]struct {
		spans   []Span
		classes [2]string
		layer   string
	}{
		"resends under the key's old name":  {threeOf(post("", "01", 0, 0, 503), post("", "01", 0, 0, 504, kv("http.resend_count", 1)), post("", "01", 0, 0, 200, kv("http.resend_count", 2))), [2]string{rows.ClassOverload, rows.ClassTimeout}, rows.LayerTransport},
		"resends under its oldest name":     {threeOf(post("", "01", 0, 0, 503), post("", "01", 0, 0, 504, kv("http.retry_count", 1)), post("", "01", 0, 0, 200, kv("http.retry_count", 2))), [2]string{rows.ClassOverload, rows.ClassTimeout}, rows.LayerTransport},
		"statuses of gRPC":                  {threeOf(rpc("", 0, 0, 14), rpc("", 0, 0, 4), rpc("", 0, 0, 0)), [2]string{rows.ClassOverload, rows.ClassTimeout}, rows.LayerSDK},
		"names of gRPC's statuses":          {threeOf(rpc("", 0, 0, "RESOURCE_EXHAUSTED"), rpc("", 0, 0, "DEADLINE_EXCEEDED"), rpc("", 0, 0, "OK")), [2]string{rows.ClassOverload, rows.ClassTimeout}, rows.LayerSDK},
		"gRPC's statuses on spans in error": {threeOf(rpc("", 0, 0, 8, StatusError), rpc("", 0, 0, 13, StatusError), rpc("", 0, 0, 0)), [2]string{rows.ClassOverload, rows.ClassServer}, rows.LayerSDK},
		"requests aborted by a timeout":     {threeOf(aborted(), aborted(), post("", "01", 0, 0, 200)), [2]string{rows.ClassTimeout, rows.ClassTimeout}, rows.LayerSDK},
		"a conflict, then a lock":           {threeOf(post("", "01", 0, 0, 409), post("", "01", 0, 0, 409), post("", "01", 0, 0, 200)), [2]string{rows.ClassClient, rows.ClassClient}, rows.LayerSDK},
		"a request refused, then changed":   {threeOf(post("", "01", 0, 0, 400), post("", "01", 0, 0, 503), post("", "01", 0, 0, 200)), [2]string{rows.ClassClient, rows.ClassOverload}, rows.LayerSDK},
	} {
		res := analyze(t, c.spans...)
		o := one(t, res)
		if o.Attempts == nil || *o.Attempts != 3 || o.HiddenTotalNS == nil {
			t.Errorf("%s: attempts %v, hidden %v, want 3 and 6 s", name, o.Attempts, o.HiddenTotalNS)
			continue
		}
		near(t, name+": failed", &o.FailedAttemptNS, 4)
		near(t, name+": backoff", &o.BackoffNS, 2)
		near(t, name+": final", &o.InferenceSegmentNS, 3)
		for i, want := range c.classes {
			if a := res.Attempts[i]; a.ErrorClass != want || a.Outcome != rows.OutcomeError || a.Layer != c.layer {
				t.Errorf("%s: attempt %d is %s %s of layer %s, want %s of %s", name, i+1, a.Outcome, a.ErrorClass, a.Layer, want, c.layer)
			}
		}
		if last := res.Attempts[2]; last.Outcome != rows.OutcomeOK || o.Outcome != rows.OutcomeOK {
			t.Errorf("%s: ends %s", name, last.Outcome)
		}
	}
}

// A call that a deadline of gRPC ended is a timeout; its status stands as HTTP's.
func TestC75_StatusesOfGRPC(t *testing.T) {
	for code, want := range map[any]struct {
		class  string
		status uint16
	}{
		4: {rows.ClassTimeout, 504}, 14: {rows.ClassOverload, 503}, 8: {rows.ClassOverload, 429}, 1: {rows.ClassCancelled, 499}, 3: {rows.ClassClient, 400},
		16: {rows.ClassClient, 401}, 13: {rows.ClassServer, 500}, 0: {"", 200}, "deadline_exceeded": {rows.ClassTimeout, 504}, "canceled": {rows.ClassCancelled, 499},
		99: {"", 0}, "WHATEVER": {"", 0}, -1: {"", 0},
	} {
		o := one(t, analyze(t, chat("01", "", "m1", 0, 5), rpc("02", 0, 5, code)))
		if o.ErrorClass != want.class || o.HTTPStatus != want.status {
			t.Errorf("%v: class %q, status %d, want %q and %d", code, o.ErrorClass, o.HTTPStatus, want.class, want.status)
		}
	}
}

// C75 as spans have it: each kind of failure on an attempt's own span, under a call that
// says only that it failed.
func TestC75_ClassesOfCallsAndAttempts(t *testing.T) {
	ops, attempts := map[string]int{}, map[string]int{}
	for _, child := range []Span{
		post("02", "01", 0, 1, 408), post("02", "01", 0, 1, 504), post("02", "01", 0, 1, 524), post("02", "01", 0, 1, 0, failedWith("timeout")...),
		post("02", "01", 0, 1, 429), post("02", "01", 0, 1, 503), post("02", "01", 0, 1, 500),
	} {
		res := analyze(t, chat("01", "", "m1", 0, 1, StatusError), child)
		o := one(t, res)
		attemptsAre(t, o, 1, rows.SourceHTTPChild)
		ops[o.ErrorClass]++
		attempts[res.Attempts[0].ErrorClass]++
		if o.Censored != (o.ErrorClass == rows.ClassTimeout) {
			t.Errorf("%s: censored %v", o.ErrorClass, o.Censored)
		}
	}
	want := "map[overload:2 server:1 timeout:4]"
	if fmt.Sprint(ops) != want || fmt.Sprint(attempts) != want {
		t.Fatalf("calls %v, attempts %v, want %s", ops, attempts, want)
	}
}

// retry is the event of a failed try.
func retry(at float64, attrs ...Attr) Event { return ev("gen_ai.retry", at, attrs...) }

func TestC5_WhatEventsSay(t *testing.T) {
	number := func(n int) Attr { return kv("attempt", n) }
	wait := func(s float64) Attr { return kv("backoff_seconds", s) }
	chunks := func(n int) []any {
		var out []any
		for i := range n {
			out = append(out, ev("gen_ai.content.completion.chunk", 8+float64(i)/1000))
		}
		return out
	}
	for _, c := range []struct {
		name     string
		options  []any
		attempts uint32
		rows     int
		failed   float64
		backoff  float64
		hidden   float64 // -1 for unknown
	}{
		{"numbered from 1", []any{retry(3, number(1), wait(0.5)), retry(6.5, number(2), wait(1))}, 3, 3, 6, 1.5, 7.5},
		{"numbered from 0", []any{retry(3, number(0), wait(0.5)), retry(6.5, number(1), wait(1))}, 3, 3, 6, 1.5, 7.5},
		{"numbered by the try that follows", []any{retry(3, number(2), wait(0.5)), retry(6.5, number(3), wait(1))}, 3, 3, 6, 1.5, 7.5},
		{"without numbers", []any{retry(3, wait(0.5)), retry(6.5, wait(1))}, 3, 3, 6, 1.5, 7.5},
		{"in milliseconds", []any{retry(3, kv("retry.delay_ms", 500)), retry(6.5, kv("backoff_ms", 1000))}, 3, 3, 6, 1.5, 7.5},
		{"without waits", []any{retry(3), retry(6.5)}, 3, 3, 6.5, 0, 6.5},
		{"one of them twice", []any{retry(3, number(1), wait(0.5)), retry(3, number(1), wait(0.5)), retry(6.5, number(2), wait(1))}, 3, 3, 6, 1.5, 7.5},
		{"the first two lost", []any{retry(6.5, number(3), wait(1))}, 4, 1, 0, 0, -1},
		{"the first lost among many events", append([]any{retry(6.5, number(2), wait(1))}, chunks(manyEvents)...), 3, 1, 0, 0, -1},
		{"one between lost", []any{retry(3, number(1), wait(0.5)), retry(6.5, number(3), wait(1))}, 4, 3, 6, 1.5, -1},
		{"numbers that do not rise", []any{retry(3, number(7), wait(0.5)), retry(6.5, number(7), wait(1))}, 3, 3, 6, 1.5, 7.5},
		{"a number beyond belief", []any{retry(3, number(1<<40), wait(0.5)), retry(6.5, wait(1))}, 3, 3, 6, 1.5, 7.5},
		{"a last failure with nothing after it", []any{StatusError, retry(3, number(1), wait(0.5)), retry(9, number(2))}, 2, 2, 3, 0.5, 3.5},
		{"cancelled while it waited", []any{StatusError, retry(3, number(1), wait(0.5)), retry(8.5, number(2), wait(20))}, 2, 2, 3, 0.5, 3.5},
		{"as many as are allowed", []any{StatusError, retry(3, number(1), kv("max_attempts", 2), wait(0.5)), retry(8, number(2), kv("max_attempts", 2))}, 2, 2, 3, 0.5, 3.5},
		{"the last allowed failed, numbered by the try that follows", []any{StatusError, retry(3, number(2), kv("max_attempts", 3), wait(0.5)), retry(6.5, number(3), kv("max_attempts", 3), wait(1))}, 3, 3, 6, 1.5, 7.5},
		{"as many as are allowed, numbered from 0", []any{StatusError, retry(3, number(0), kv("max_attempts", 2), wait(0.5)), retry(8, number(1), kv("max_attempts", 2))}, 2, 2, 3, 0.5, 3.5},
		{"waits longer than the call", []any{retry(3, wait(60))}, 2, 2, 3, 6, 9},
	} {
		res := analyze(t, chat("01", "", "m1", 0, 9, c.options...))
		o := one(t, res)
		if o.Attempts == nil || *o.Attempts != c.attempts || o.AttemptSource != rows.SourceEvent || len(res.Attempts) != c.rows {
			t.Errorf("%s: attempts %v from %s with %d rows, want %d with %d", c.name, o.Attempts, o.AttemptSource, len(res.Attempts), c.attempts, c.rows)
			continue
		}
		near(t, c.name+": failed", &o.FailedAttemptNS, c.failed)
		near(t, c.name+": backoff", &o.BackoffNS, c.backoff)
		if c.hidden < 0 && o.HiddenTotalNS != nil {
			t.Errorf("%s: hidden %v s, want unknown", c.name, secs(*o.HiddenTotalNS))
		} else if c.hidden >= 0 {
			near(t, c.name+": hidden", o.HiddenTotalNS, c.hidden)
		}
		if last := res.Attempts[len(res.Attempts)-1]; !last.Last || last.Ordinal != c.attempts || last.Outcome != o.Outcome {
			t.Errorf("%s: the last row is attempt %d, last %v, %s of a call that is %s", c.name, last.Ordinal, last.Last, last.Outcome, o.Outcome)
		}
	}
}

func TestC12_LimitsStatedByEvents(t *testing.T) {
	for name, a := range map[string]Attr{"attempts": kv("max_attempts", 2), "retries": kv("max_retries", 1)} {
		o := one(t, analyze(t, chat("01", "", "m1", 0, 9, retry(3, a, kv("attempt", 1)), retry(6, a, kv("attempt", 2)))))
		if o.MaxRetries == nil || *o.MaxRetries != 1 || *o.Attempts != 3 {
			t.Errorf("%s: allowed retries %v, attempts %v, want 1 and 3", name, o.MaxRetries, o.Attempts)
		}
	}
	// A tool's own events of that name say nothing about others.
	if o := one(t, analyze(t, chat("01", "", "m1", 0, 9, ev("note", 3, kv("max_attempts", 9))))); o.MaxRetries != nil {
		t.Errorf("a note allowed %d retries", *o.MaxRetries)
	}
}

// C14 as SDKs show it whose timeout aborts the request: the spans below say that they were
// aborted, and only the call's own span knows why.
func TestC14_AbortedByTheirTimeout(t *testing.T) {
	spans := []Span{chat("01", "", "m1", 0, 91.6, failedWith("APIConnectionTimeoutError")...)}
	for i, from := range []float64{0, 30.5, 61.6} {
		spans = append(spans, post(fmt.Sprint("p", i), "01", from, from+30, 0, failedWith("AbortError")...))
	}
	res := analyze(t, spans...)
	o := one(t, res)
	attemptsAre(t, o, 3, rows.SourceHTTPChild)
	near(t, "hidden", o.HiddenTotalNS, 61.6)
	for _, a := range res.Attempts {
		near(t, "attempt", &a.DurationNS, 30)
		if a.ErrorClass != rows.ClassTimeout || !a.Censored {
			t.Errorf("attempt %d: class %s, censored %v", a.Ordinal, a.ErrorClass, a.Censored)
		}
	}
	// A call that was cancelled as a whole stays cancelled.
	res = analyze(t, chat("01", "", "m1", 0, 5, failedWith("AbortError")...), post("02", "01", 0, 5, 0, failedWith("AbortError")...))
	if o := one(t, res); o.ErrorClass != rows.ClassCancelled || res.Attempts[0].ErrorClass != rows.ClassCancelled || *o.Attempts != 1 {
		t.Fatalf("class %s, attempt %s, %d attempts", o.ErrorClass, res.Attempts[0].ErrorClass, *o.Attempts)
	}
}
