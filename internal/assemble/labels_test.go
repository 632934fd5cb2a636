package assemble

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/genai"
	"driftline/internal/rows"
)

func of(service string, s genai.Span) genai.Span {
	s.Resource = &genai.Resource{ServiceName: service}
	return s
}

func services(t table) map[string]int {
	n := map[string]int{}
	for key, row := range t {
		if !row.Head().Deleted && key.Table == rows.TableOperations {
			n[key.Service]++
		}
	}
	return n
}

func TestServicesOverTheLimitBecomeOther(t *testing.T) {
	set := testSettings()
	set.MaxLabelValues = 3
	b := newToy(set)
	store := table{}
	for i := range 10 {
		service := fmt.Sprintf("pod-%d", i)
		b.Add(of(service, span(i, 1, "root", 0, time.Second)), 0, 100, at(time.Second))
		b.Add(of(service, span(i, 2, "chat", 0, time.Second)), 0, 100, at(time.Second))
		store.take(b.Tick(at(time.Duration(4+i) * time.Second)))
		b.Add(of(service, span(i, 2, "chat", 0, time.Second)), 0, 100, at(time.Duration(4+i)*time.Second))
	}
	require.Equal(t, map[string]int{"pod-0": 1, "pod-1": 1, "pod-2": 1, Other: 7}, services(store))
	require.Positive(t, b.Stats().OverflowLabels)
}

// A service that gains a place while its trace is remembered moves its rows and leaves
// none behind.
func TestServiceThatGainsAPlaceTakesItsRowsAlong(t *testing.T) {
	set := testSettings()
	set.MaxLabelValues = 1
	set.Remember = 3 * time.Hour
	b := newToy(set)
	store := table{}
	b.Add(of("first", span(1, 1, "root", 0, time.Second)), 0, 100, at(time.Second))
	b.Add(of("first", span(1, 2, "chat", 0, time.Second)), 0, 100, at(time.Second))
	store.take(b.Tick(at(3 * time.Second)))
	b.Add(of("second", span(2, 1, "root", 0, time.Second)), 0, 100, at(time.Second))
	b.Add(of("second", span(2, 2, "chat", 0, time.Second)), 0, 100, at(time.Second))
	store.take(b.Tick(at(4 * time.Second)))
	require.Equal(t, map[string]int{"first": 1, Other: 1}, services(store))

	b.Add(of("second", span(2, 3, "chat", time.Second, 2*time.Second)), 0, 100, at(2*time.Hour))
	store.take(b.Tick(at(2*time.Hour + 2*time.Second)))
	require.Equal(t, map[string]int{"first": 1, "second": 1}, services(store))
	for key, row := range store {
		require.Equal(t, key.Service == Other, row.Head().Deleted, "%+v", key)
	}
}
