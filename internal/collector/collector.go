// Package collector registers Prometheus collectors that several users of one registerer share.
package collector

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a collector. It returns that, or the one of the same type that is registered
// in its place already; added says which.
func Register[C prometheus.Collector](registerer prometheus.Registerer, c C) (
	registered C, added bool, err error) {
	err = registerer.Register(c)
	if taken, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := taken.ExistingCollector.(C); ok {
			return existing, false, nil
		}
	}
	return c, err == nil, err
}
