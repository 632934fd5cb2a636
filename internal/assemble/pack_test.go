package assemble

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/genai"
)

// What is remembered of a span is all that the domain reads of it.
func TestPackedSpansComeBackWhole(t *testing.T) {
	const trace = "000102030405060708090a0b0c0d0e0f"
	resource := &genai.Resource{ServiceName: "s", ServiceVersion: "1", Environment: "e", HostID: "h"}
	spans := []genai.Span{
		{
			TraceID: trace, SpanID: "0000000000000001", ParentID: "0000000000000002", LinkedTraces: []string{"ff"}, TraceState: "ot=th:8", Name: "chat m", Scope: "x",
			Kind: genai.KindClient, Status: genai.StatusError, Start: 7, End: 5, Resource: resource, EventsDropped: true,
			Attrs: []genai.Attr{{Key: "a", Value: genai.StringValue("v")}, {Key: "b", Value: genai.IntValue(-3)}, {Key: "c", Value: genai.DoubleValue(0.5)},
				{Key: "d", Value: genai.BoolValue(true)}, {Key: "e", Value: genai.StringsValue("x", "")}, {Key: "f", Value: genai.BoolValue(false)}},
			Events: []genai.Event{{Name: "chunk", Time: 6, Attrs: []genai.Attr{{Key: "a", Value: genai.StringValue("w")}}}, {Name: "chunk", Time: 9}},
		},
		{TraceID: trace, SpanID: "odd id", Name: "root", Start: 1 << 62, End: 0, Scope: "x", Resource: resource},
	}
	b := newToy(Settings{})
	e := b.begin([16]byte{1}, time.Unix(1, 0).UnixNano())
	b.work.views, b.work.fresh = spans, []int32{0, 1}
	b.pack(e)
	require.Equal(t, spans, b.unpack(nil, e.packed, trace))
}
