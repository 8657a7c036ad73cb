//go:build !soak

package serverhttp_test

import "time"

// manySessions is how many sessions TestManyIdleSessions opens; more with the
// tag soak.
const (
	manySessions        = 500
	manySessionsTimeout = 2 * time.Second
)
