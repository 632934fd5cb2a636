package deploy

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

func load(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../docker-compose.yml"}, cli.WithEnv([]string{"CLICKHOUSE_PASSWORD=test"}))
	require.NoError(t, err)
	project, err := options.LoadProject(context.Background())
	require.NoError(t, err)
	return project
}

func TestComposeParsesAndMountsWhatExists(t *testing.T) {
	project := load(t)
	require.ElementsMatch(t, []string{"clickhouse", "migrate", "collector", "detectd", "alertmanager", "grafana"}, project.ServiceNames())
	mounts := 0
	for name, service := range project.Services {
		for _, v := range service.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			mounts++
			_, err := os.Stat(v.Source)
			require.NoError(t, err, "service %s mounts a file that does not exist", name)
		}
		if service.Build != nil {
			dockerfile := filepath.Join(service.Build.Context, service.Build.Dockerfile)
			text, err := os.ReadFile(dockerfile)
			require.NoError(t, err)
			require.Contains(t, string(text), " AS "+service.Build.Target+"\n", "%s has no stage %s", dockerfile, service.Build.Target)
		}
	}
	require.GreaterOrEqual(t, mounts, 4)
}

func TestComposePublishesOnLoopbackOnly(t *testing.T) {
	for name, service := range load(t).Services {
		for _, p := range service.Ports {
			require.Equal(t, "127.0.0.1", p.HostIP, "service %s publishes port %s to other machines", name, p.Published)
		}
	}
}

func TestComposeNeedsAPassword(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"../docker-compose.yml"}, cli.WithEnv(nil))
	require.NoError(t, err)
	_, err = options.LoadProject(context.Background())
	require.ErrorContains(t, err, "CLICKHOUSE_PASSWORD")
}

func TestProvisioningNamesWhatTheComposeFileMounts(t *testing.T) {
	grafana := load(t).Services["grafana"]
	targets := map[string]string{}
	for _, v := range grafana.Volumes {
		targets[v.Target] = v.Source
	}
	var provider struct {
		Providers []struct{ Options struct{ Path string } }
	}
	read(t, "grafana/provisioning/dashboards/driftline.yml", &provider)
	folder := targets[provider.Providers[0].Options.Path]
	require.NotEmpty(t, folder, "the dashboards' provider reads a folder that is not mounted")
	boards, err := filepath.Glob(filepath.Join(folder, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, boards)

	var sources struct {
		Datasources []struct {
			UID      string
			Type     string
			JSONData map[string]any    `yaml:"jsonData"`
			Secure   map[string]string `yaml:"secureJsonData"`
		}
	}
	read(t, "grafana/provisioning/datasources/clickhouse.yml", &sources)
	ds := sources.Datasources[0]
	require.Equal(t, "grafana-clickhouse-datasource", ds.Type)
	require.Contains(t, *grafana.Environment["GF_PLUGINS_PREINSTALL"], ds.Type)
	for _, value := range ds.Secure {
		require.True(t, strings.HasPrefix(value, "$"), "a secret stands in the file")
		require.Contains(t, grafana.Environment, strings.TrimPrefix(value, "$"))
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}
