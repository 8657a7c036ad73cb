package gateway

import "time"

// WithEntries and WithCallTime set limits that are otherwise constant.
func (o *Options) WithEntries(n int) *Options {
	o.entries = n
	return o
}

func (o *Options) WithCallTime(d time.Duration) *Options {
	o.callTime = d
	return o
}

type (
	NameClaims    = nameClaims
	UpstreamNames = upstreamNames
)
