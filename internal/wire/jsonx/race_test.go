//go:build race

package jsonx_test

import "testing"

// needPools skips: under the race detector sync.Pool drops items at random.
func needPools(t *testing.T) { t.Skip("allocations cannot be counted under the race detector") }
