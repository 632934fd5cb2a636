package chconn

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseNamesWhatIsWrongAndHidesThePassword(t *testing.T) {
	for dsn, want := range map[string]string{
		"":                                 "no ClickHouse DSN",
		"ftp://u:topsecret@h:1/db":         `scheme "ftp"`,
		"clickhouse://u:topsecret@h:1\x7f": "not a URL",
	} {
		_, err := Parse(dsn, "driftline")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "topsecret")
	}
}

func TestParseReadsTheDatabase(t *testing.T) {
	target, err := Parse("clickhouse://u:p@h:9000/mine", "driftline")
	require.NoError(t, err)
	require.Equal(t, "mine", target.Database())
	target, err = Parse("http://h:8123", "driftline")
	require.NoError(t, err)
	require.Equal(t, "driftline", target.Database())
}

func TestOpenSaysWhatToDoWhenNothingListens(t *testing.T) {
	target, err := Parse("http://u:topsecret@127.0.0.1:1/db", "driftline")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = target.Open(ctx)
	require.ErrorContains(t, err, "ClickHouse at 127.0.0.1:1 does not answer")
	require.ErrorContains(t, err, "check that it runs")
	require.NotContains(t, err.Error(), "topsecret")
}
