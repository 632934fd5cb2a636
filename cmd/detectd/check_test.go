package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckTakesItsFileEitherWay(t *testing.T) {
	check := func(args ...string) (string, error) {
		out, _, err := run(t, "", append([]string{"check"}, args...)...)
		return out, err
	}
	file := filepath.Join(t.TempDir(), "detectd.yaml")
	require.NoError(t, os.WriteFile(file, []byte("fdr: 0.01\n"), 0o600))
	for _, args := range [][]string{{file}, {"--config", file}, {"--config", file, file}} {
		out, err := check(args...)
		require.NoError(t, err)
		require.Contains(t, out, "fdr: 0.01\n")
	}
	_, err := check(file + "x")
	require.ErrorContains(t, err, "no such file")
	var usage usageError
	_, err = check(file, file)
	require.ErrorAs(t, err, &usage)
	require.ErrorContains(t, err, "one file")
	_, err = check("--config", file, file+"x")
	require.ErrorAs(t, err, &usage)
	require.ErrorContains(t, err, "--config "+file)
	require.NoError(t, os.WriteFile(file, []byte("fdr: 2\n"), 0o600))
	_, err = check(file)
	require.ErrorContains(t, err, "fdr 2: want between 0 and 1")
	out, err := check()
	require.NoError(t, err)
	require.Contains(t, out, "fdr: 0.05\n")
}
