package redisstore_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/leaktest"
)

func TestMain(m *testing.M) {
	if runAsReplica() {
		return
	}
	leaktest.Main(m)
}
