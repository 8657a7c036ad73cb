package store

func (g *MemoryGuard) Bytes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int(g.claims.Bytes())
}

const (
	MaxGuardEntries = maxGuardEntries
	MaxGuardBytes   = maxGuardBytes
	MaxStoreBytes   = maxStoreBytes
)
