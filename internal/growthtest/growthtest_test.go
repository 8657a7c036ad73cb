package growthtest_test

import (
	"bytes"
	"testing"

	"github.com/rondo-mcp/rondo/internal/growthtest"
)

func TestLinearReaderPasses(t *testing.T) {
	growthtest.Test(t, growthtest.Reader{
		Read:         func(input []byte) bool { return len(bytes.Clone(input)) > 0 },
		BytesPerByte: 1.5,
	}, growthtest.Input{Name: "clone", Make: growthtest.Repeat("", "x", "")})
}

func TestRepeat(t *testing.T) {
	if got := string(growthtest.Repeat("[", "1,", "1]")(10)); got != "[1,1,1,1]" {
		t.Errorf("got %s", got)
	}
}
