package golden

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files from what comes out now")

func TestGolden(t *testing.T) {
	end := t0.Add(time.Duration(len(scenarios)+1) * time.Hour)
	s := newStorage(t, end)
	rigs := make([]*rig, len(scenarios))
	for i, sc := range scenarios {
		rigs[i] = newRig(t, s)
		sc.play(rigs[i])
	}
	s.store(t, end)
	all, byRun := s.read(t), s.rowsByRun(t)
	for i, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			want, known := byHand[sc.name]
			require.True(t, known, "a scenario needs values worked out by hand")
			requireByHand(t, rigs[i], byRun[rigs[i].run], want)
			got := rigs[i].document(t, all)
			require.False(t, bytes.Contains(got, []byte(secret)), "content came out")
			path := filepath.Join("testdata", sc.name+".json")
			if *update {
				require.NoError(t, os.WriteFile(path, got, 0o644))
			}
			committed, err := os.ReadFile(path)
			require.NoError(t, err, "make it with -update")
			require.Equal(t, string(committed), string(got), "case %s", sc.cases)
		})
	}
	t.Run("no content", func(t *testing.T) { s.requireNoContent(t) })
}
