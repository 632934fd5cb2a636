package genai

import (
	"testing"

	"driftline/internal/identity"
)

func TestRequestsCarryKeyedHashesOfUserAndTenant(t *testing.T) {
	hasher, err := identity.New("0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{UserKeys: []string{"app.user"}, TenantKeys: []string{"app.org"}, Identity: hasher}
	for name, c := range map[string]struct {
		root, call   []any
		user, tenant string
	}{
		"none":                            {},
		"on the root":                     {root: []any{kv("user.id", "alice"), kv("tenant.id", "acme")}, call: []any{kv("user.id", "bob")}, user: "alice", tenant: "acme"},
		"below":                           {call: []any{kv("enduser.id", "alice"), kv("litellm.team.id", "t1")}, user: "alice", tenant: "t1"},
		"user and tenant of two spans":    {root: []any{kv("app.org", "acme")}, call: []any{kv("langfuse.user.id", "alice")}, user: "alice", tenant: "acme"},
		"the convention goes first":       {root: []any{kv("app.user", "other"), kv("user.id", "alice")}, user: "alice"},
		"a number":                        {root: []any{kv("app.user", 42)}, user: "42"},
		"words for nobody hide nobody":    {root: []any{kv("metadata.user_api_key_end_user_id", ""), kv("metadata.user_api_key_user_id", "None"), kv("traceloop.association.properties.user_id", "alice")}, user: "alice"},
		"LiteLLM's key, by its owner":     {root: []any{kv("metadata.user_api_key_user_id", "alice"), kv("metadata.user_api_key_team_id", ""), kv("metadata.user_api_key_org_id", "acme")}, user: "alice", tenant: "acme"},
		"sessions are no users":           {root: []any{kv("session.id", "s"), kv("gen_ai.conversation.id", "c")}},
		"the Vercel AI SDK's metadata":    {call: []any{kv("ai.telemetry.metadata.userId", "alice")}, user: "alice"},
		"equal ids of both kinds":         {root: []any{kv("user.id", "x"), kv("tenant.id", "x")}, user: "x", tenant: "x"},
		"the root's word for nobody":      {root: []any{kv("user.id", "null")}, call: []any{kv("user.id", "alice")}, user: "alice"},
		"a pseudonym where nothing else":  {root: []any{kv("enduser.pseudo.id", "p")}, user: "p"},
		"an id before a pseudonym of two": {root: []any{kv("enduser.pseudo.id", "p"), kv("enduser.id", "alice")}, user: "alice"},
	} {
		spans := []Span{agent("01", "", "planner", 0, 9, c.root...), chat("02", "01", "m1", 1, 8, c.call...)}
		for _, in := range [][]Span{spans, reversed(spans)} {
			res := Analyze(Trace{Spans: in, Complete: true}, opt)
			checkLaws(t, res)
			got := res.Requests[0]
			for _, h := range []struct {
				kind  identity.Kind
				value string
				got   *int64
			}{{identity.User, c.user, got.UserHash}, {identity.Tenant, c.tenant, got.TenantHash}} {
				want, known := hasher.Hash(h.kind, h.value)
				if known != (h.got != nil) || known && want != *h.got {
					t.Errorf("%s: %s is %v, want that of %q", name, h.kind, h.got, h.value)
				}
			}
		}
		off := Analyze(Trace{Spans: spans, Complete: true}, Options{UserKeys: opt.UserKeys, TenantKeys: opt.TenantKeys}).Requests[0]
		if off.UserHash != nil || off.TenantHash != nil {
			t.Errorf("%s: a hash without a key", name)
		}
	}
}

func TestIDsAreKeptOnlyWhereThereIsAKey(t *testing.T) {
	hasher, _ := identity.New("0123456789abcdef")
	with := &Options{UserKeys: []string{"app.user"}, Identity: hasher}
	for _, key := range []string{"user.id", "litellm.team.id", "app.user"} {
		if !Wanted(key, with) {
			t.Errorf("%s is not kept", key)
		}
		if Wanted(key, nil) || Wanted(key, &Options{UserKeys: []string{"app.user"}}) {
			t.Errorf("%s is kept without a key", key)
		}
	}
}

// Ids go with baggage to spans of all kinds, so they say nothing of who wrote a span.
func TestAnIDBetraysNoDialect(t *testing.T) {
	hasher, _ := identity.New("0123456789abcdef")
	res := Analyze(Trace{Spans: []Span{chat("01", "", "m1", 0, 9, kv("langfuse.user.id", "alice"), kv("litellm.team.id", "t"))}, Complete: true}, Options{Identity: hasher})
	if got := res.Operations[0].Dialect; got != "otel" {
		t.Errorf("dialect %s", got)
	}
}
