package testkit_test

import (
	"bytes"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func TestLinearReaderPasses(t *testing.T) {
	testkit.CheckGrowth(t, testkit.GrowthReader{
		Read:         func(input []byte) bool { return len(bytes.Clone(input)) > 0 },
		BytesPerByte: 1.5,
	}, testkit.GrowthInput{Name: "clone", Make: testkit.Repeat("", "x", "")})
}

func TestRepeat(t *testing.T) {
	if got := string(testkit.Repeat("[", "1,", "1]")(10)); got != "[1,1,1,1]" {
		t.Errorf("got %s", got)
	}
}
