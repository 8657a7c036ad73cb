//go:build !race

package jsonx_test

import "testing"

func needPools(*testing.T) {}
