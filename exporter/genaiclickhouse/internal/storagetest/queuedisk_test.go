package storagetest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/require"

	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
)

// fill sends batches while ClickHouse is away, until one is refused. It returns how many
// were taken and why the next was not.
func fill(c *child) (taken int, refused string) {
	for taken < 10_000 {
		if refused = c.send(taken); refused != "" {
			return taken, refused
		}
		taken++
	}
	return taken, ""
}

// TestAQueueSmallerThanItsDiskKeepsAllItHasTaken is how the README says to size them.
func TestAQueueSmallerThanItsDiskKeepsAllItHasTaken(t *testing.T) {
	r := newRig(t)
	seed := newSeed(t).Uint64()
	u, err := url.Parse(enginetest.Shared(t).URL(t))
	require.NoError(t, err)
	p, through := newProxy(t, "http://127.0.0.1:1") // nobody listens there
	c := startChild(t, childSpec{Endpoint: through, Database: r.db, Dir: t.TempDir(), Seed: seed, StartNS: start.UnixNano(), DiskBytes: 8 << 20, QueueBytes: 1 << 20})
	taken, refused := fill(c)
	require.Contains(t, refused, "sending queue is full")
	require.Greater(t, taken, 10)
	p.setTarget(u.Host)
	r.eventually(uint64(10*taken), "SELECT count() FROM {db}.requests")
	require.Empty(t, c.send(taken), "there is room again")
	taken++
	r.eventually(uint64(10*taken*len(rows.Tables)), "SELECT count() FROM {db}.spans")
	counted := c.stop()
	require.EqualValues(t, 10*taken*len(rows.Tables), counted["spans_stored"])
	require.Zero(t, counted["rows_dropped"])
	var list []rows.Row
	for i := range taken {
		list = append(list, childRows(seed, uint64(i))...)
	}
	r.requireOnce(list)
}

// TestAFullDiskOfTheQueueIsTold runs into the disk's end before the queue's. The collector's
// queue then refuses data with the disk's own error. It may also give up a batch that it
// was about to read, which is why the README wants the queue smaller than the disk.
func TestAFullDiskOfTheQueueIsTold(t *testing.T) {
	r := newRig(t)
	seed := newSeed(t).Uint64()
	u, err := url.Parse(enginetest.Shared(t).URL(t))
	require.NoError(t, err)
	p, through := newProxy(t, "http://127.0.0.1:1")
	c := startChild(t, childSpec{Endpoint: through, Database: r.db, Dir: t.TempDir(), Seed: seed, StartNS: start.UnixNano(), DiskBytes: 1 << 20})
	taken, refused := fill(c)
	require.Contains(t, refused, "no space left on device")
	require.Eventually(t, func() bool { return strings.Contains(c.log.String(), "no space left on device") }, 10*time.Second, 10*time.Millisecond, "the log says it too")
	p.setTarget(u.Host)
	// Two batches at most were on their way out of the queue when the disk was full.
	r.eventually(uint64(10*(taken-2)), "SELECT count() FROM {db}.requests")
	require.Eventually(t, func() bool { return c.send(taken+1) == "" }, 30*time.Second, 50*time.Millisecond, "it goes on once there is room")
	r.eventually(10, fmt.Sprintf("SELECT count() FROM {db}.requests WHERE trace_id IN (%s)", quoted(childRows(seed, uint64(taken+1)))))
	c.stop()
	known := map[rows.Key]rows.Row{}
	for i := range taken + 2 {
		for _, row := range childRows(seed, uint64(i)) {
			known[row.Key()] = row
		}
	}
	for _, table := range rows.Tables {
		for key, row := range r.readBack(table) {
			require.Equal(t, known[key], row, "a row that nobody sent")
		}
	}
}

func quoted(list []rows.Row) (out string) {
	for i, row := range list {
		if i > 0 {
			out += ", "
		}
		out += "'" + row.Head().TraceID + "'"
	}
	return out
}

// TestAQueueThatCannotBeWrittenStopsTheStart: data must not be taken that cannot be kept.
func TestAQueueThatCannotBeWrittenStopsTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for path, want := range map[string]string{file: "is not a directory", filepath.Join(t.TempDir(), "missing"): "must exist"} {
		cfg := filestorage.NewFactory().CreateDefaultConfig().(*filestorage.Config)
		cfg.Directory = path
		require.ErrorContains(t, cfg.Validate(), want)
	}

	// The collector checks the directory itself; here it vanishes after that.
	dir := filepath.Join(t.TempDir(), "queue")
	require.NoError(t, os.Mkdir(dir, 0o700))
	storage := newStorage(t, dir)
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	r := newBareRig(t)
	_, err := r.tryExporter(enginetest.Shared(t).URL(t), storageHost{storage}, withQueue, withStorage)
	require.ErrorContains(t, err, dir)
	require.NoError(t, storage.Shutdown(ctx))
}
