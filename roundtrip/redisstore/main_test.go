package redisstore_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func TestMain(m *testing.M) {
	if runAsReplica() {
		return
	}
	testkit.Main(m)
}
