package quota_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
)

func TestOr(t *testing.T) {
	for _, test := range []struct {
		name        string
		given, want int
	}{{"zero is the default", 0, 7}, {"negative is none", -1, quota.Unlimited},
		{"positive", 1, 1}} {
		t.Run(test.name, func(t *testing.T) {
			if got := quota.LimitOr(test.given, 7); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
