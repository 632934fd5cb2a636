// Package deploy holds what docker-compose.yml mounts and builds; its tests check
// that the compose file parses and that what it names exists.
package deploy
