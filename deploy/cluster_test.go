package deploy

import (
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/schema"
)

type node struct {
	Host string `xml:"host"`
	Port int    `xml:"port"`
}

// serverConfig is what the tests read of deploy/cluster/clickhouse.xml.
type serverConfig struct {
	Keepers   []node `xml:"zookeeper>node"`
	KeeperMap string `xml:"keeper_map_path_prefix"`
	DDLPath   string `xml:"distributed_ddl>path"`
	Clusters  struct {
		Driftline struct {
			Shards []struct {
				InternalReplication bool   `xml:"internal_replication"`
				Replicas            []node `xml:"replica"`
			} `xml:"shard"`
		} `xml:"driftline"`
	} `xml:"remote_servers"`
}

type keeperConfig struct {
	Port    int `xml:"keeper_server>tcp_port"`
	Control int `xml:"keeper_server>http_control>port"`
	Raft    []struct {
		ID   int    `xml:"id"`
		Host string `xml:"hostname"`
	} `xml:"keeper_server>raft_configuration>server"`
}

func readXML(t *testing.T, path string, into any) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(text, into))
	return string(text)
}

var fromEnv = regexp.MustCompile(`<(\w+) from_env="(\w+)"/>`)

// The servers, their configuration and the compose file must tell the same story, since no
// test here can start the cluster.
func TestClusterConfigurationAgreesWithItsComposeFile(t *testing.T) {
	services := load(t, cluster).Services
	var server serverConfig
	text := readXML(t, "cluster/clickhouse.xml", &server)
	var keeper keeperConfig
	keeperText := readXML(t, "cluster/keeper.xml", &keeper)

	shards := server.Clusters.Driftline.Shards
	require.Len(t, shards, 2)
	servers := 0
	for i, shard := range shards {
		require.True(t, shard.InternalReplication, "or each row is written to each replica twice")
		require.Len(t, shard.Replicas, 2)
		for k, replica := range shard.Replicas {
			service, ok := services[replica.Host]
			require.True(t, ok, "%s is no service", replica.Host)
			require.Equal(t, replica.Host, service.Hostname, "replicas fetch parts from each other by this name")
			require.Equal(t, fmt.Sprint(i+1), *service.Environment["CLICKHOUSE_SHARD"])
			require.Equal(t, fmt.Sprint(k+1), *service.Environment["CLICKHOUSE_REPLICA"])
			require.Contains(t, service.Networks["default"].Aliases, "clickhouse")
			for _, m := range fromEnv.FindAllStringSubmatch(text, -1) {
				require.Contains(t, service.Environment, m[2])
			}
			require.Equal(t, 9000, replica.Port)
			servers++
		}
	}
	for name := range services {
		if strings.HasPrefix(name, "clickhouse-") {
			servers--
		}
	}
	require.Zero(t, servers, "each server is a replica of the cluster")

	require.Len(t, server.Keepers, 3)
	require.Len(t, keeper.Raft, 3)
	for i, k := range server.Keepers {
		require.Equal(t, keeper.Port, k.Port)
		require.Equal(t, k.Host, keeper.Raft[i].Host)
		service, ok := services[k.Host]
		require.True(t, ok, "%s is no service", k.Host)
		require.Equal(t, k.Host, service.Hostname)
		require.Equal(t, fmt.Sprint(keeper.Raft[i].ID), *service.Environment["KEEPER_ID"])
		require.Contains(t, strings.Join(service.HealthCheck.Test, " "), fmt.Sprintf(":%d/ready", keeper.Control))
		for _, m := range fromEnv.FindAllStringSubmatch(keeperText, -1) {
			require.Contains(t, service.Environment, m[2])
		}
	}
	require.NotEmpty(t, server.DDLPath, "ON CLUSTER needs it")
	require.True(t, strings.HasPrefix(server.KeeperMap, "/"), "the migration lock of a cluster needs it")
	for _, macro := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(schema.DefaultReplicaPath+schema.DefaultReplicaName, -1) {
		if name := macro[1]; name != "database" && name != "table" { // those two are the server's own
			require.Contains(t, text, "<"+name+" from_env=", "the DDL names the macro {%s}", name)
		}
	}
	command := strings.Join(services["migrate"].Command, " ")
	require.Contains(t, command, "--cluster driftline", "the name in remote_servers")
}
