package roundtrip

// LegRunning: a request was sent a second time while the first is being served,
// and its client was told to send it again in a moment. Only a [Guard] tells.
type LegRunning struct{ Where }

func (LegRunning) event() {}
