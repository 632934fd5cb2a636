package genaisegment

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"driftline/internal/rows"
)

// TestADialectFromTheConfigurationIsUnderstood takes the README's made-up dialect through
// the processor: its attributes are kept, its spans are GenAI, its units are read.
func TestADialectFromTheConfigurationIsUnderstood(t *testing.T) {
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var block string
	for _, b := range fence.FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(b[1], "dialects:") {
			block = b[1]
		}
	}
	require.NotEmpty(t, block, "the README has no example of dialects")
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(block))
	require.NoError(t, err)
	conf, err := retrieved.AsConf()
	require.NoError(t, err)
	processors, err := conf.Sub("processors")
	require.NoError(t, err)
	fromReadme := load(t, processors, "")

	run := func(change func(*Config)) []*rows.Operation {
		r := newRig(t, change)
		b := newBuilder(1)
		b.td.ResourceSpans().At(0).ScopeSpans().At(0).Scope().SetName("acme.sdk")
		b.span(1, 0, "mission plan", 0, 9*time.Second)
		s := b.span(2, 1, "x", 0, 8*time.Second)
		s.Attributes().PutStr("acme.what", "ask-now")
		s.Attributes().PutStr("acme.llm", "m1")
		s.Attributes().PutInt("acme.first_us", 1_500_000)
		s.Attributes().PutStr("acme.question", "a secret")
		e := s.Events().AppendEmpty()
		e.SetName("acme.again")
		e.SetTimestamp(s.StartTimestamp() + 2_000_000_000)
		r.consume(t, b.td)
		r.clock.Advance(time.Minute)
		r.ledger(t)
		return pick[*rows.Operation](rowsOf(t, r.spans()))
	}
	require.Empty(t, run(nil), "without the configuration nobody knows these words")
	operations := run(func(c *Config) { c.Dialects = fromReadme.Dialects })
	require.Len(t, operations, 1)
	o := operations[0]
	require.Equal(t, "acme", o.Dialect)
	require.Equal(t, "m1", o.Target)
	require.Equal(t, rows.KindChat, o.Kind)
	require.NotNil(t, o.Attempts)
	require.EqualValues(t, 2, *o.Attempts)
	require.NotNil(t, o.TTFTNS)
	require.Equal(t, 1500*time.Millisecond, time.Duration(*o.TTFTNS), "from the start of the second attempt, since no token comes before it")
}
