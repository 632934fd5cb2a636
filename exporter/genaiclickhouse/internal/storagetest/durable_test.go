package storagetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension/extensiontest"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
	"driftline/schema"
)

type storageHost struct{ storage component.Component }

var storageID = component.MustNewID("file_storage")

func (h storageHost) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{storageID: h.storage}
}

func newStorage(t *testing.T, dir string) component.Component {
	return newStorageFrom(t, func(c *filestorage.Config) { c.Directory = dir })
}

func newStorageFrom(t *testing.T, change func(*filestorage.Config)) component.Component {
	factory := filestorage.NewFactory()
	cfg := factory.CreateDefaultConfig().(*filestorage.Config)
	change(cfg)
	require.NoError(t, cfg.Validate())
	storage, err := factory.Create(ctx, extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(t, err)
	require.NoError(t, storage.Start(ctx, componenttest.NewNopHost()))
	return storage
}

// readmeConf is the README's configuration with a persistent queue.
func readmeConf(t *testing.T) *confmap.Conf {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if strings.Contains(block, "file_storage") {
			retrieved, err := confmap.NewRetrievedFromYAML([]byte(block))
			require.NoError(t, err)
			conf, err := retrieved.AsConf()
			require.NoError(t, err)
			return conf
		}
	}
	t.Fatal("the README shows no persistent queue")
	return nil
}

// TestAPersistentQueueOutlivesTheCollector runs the README's configuration: it takes data
// while there is no schema, stops, and lets a second exporter on the same folder store it.
func TestAPersistentQueueOutlivesTheCollector(t *testing.T) {
	r := newBareRig(t)
	conf, endpoint := readmeConf(t), enginetest.Shared(t).URL(t)
	dir := filepath.Join(t.TempDir(), "made by the extension")
	open := func() component.Component {
		return newStorageFrom(t, func(c *filestorage.Config) {
			sub, err := conf.Sub("extensions::file_storage")
			require.NoError(t, err)
			require.NoError(t, sub.Unmarshal(c))
			c.Directory = dir
		})
	}
	asShown := func(c *genaiclickhouse.Config) {
		c.QueueConfig = genaiclickhouse.NewFactory().CreateDefaultConfig().(*genaiclickhouse.Config).QueueConfig
		sub, err := conf.Sub("exporters::genaiclickhouse")
		require.NoError(t, err)
		require.NoError(t, sub.Unmarshal(c))
		require.Equal(t, storageID, *c.QueueConfig.Get().StorageID)
		c.Endpoint, c.RetryConfig.Enabled = endpoint, true
	}
	storage := open()
	exp := r.newExporter(endpoint, storageHost{storage}, asShown)
	rng := newSeed(t)
	for range 40 {
		require.NoError(t, exp.ConsumeTraces(ctx, traces(randomRow(rng, rows.TableOperations))))
	}
	require.Eventually(t, func() bool { return total(r.sums("spans_refused")) > 0 }, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, exp.Shutdown(ctx))
	require.NoError(t, storage.Shutdown(ctx))

	require.NoError(t, schema.Up(ctx, r.conn, schema.Options{Database: r.db}, nil))
	storage = open()
	exp = r.newExporter(endpoint, storageHost{storage}, asShown)
	require.Eventually(t, func() bool { return r.count("SELECT count() FROM {db}.operations_base") >= 40 }, 60*time.Second, 20*time.Millisecond)
	require.NoError(t, exp.Shutdown(ctx))
	require.NoError(t, storage.Shutdown(ctx))
	require.EqualValues(t, 40, r.count("SELECT count() FROM {db}.operations_base"))
}
