package keyringstore_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func TestMain(m *testing.M) {
	if runAsProgram() {
		return
	}
	testkit.Main(m)
}
