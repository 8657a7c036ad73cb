package protocol

// Progress is the parameters of notifications/progress
// (basic/patterns/progress). Progress must increase with each notification.
type Progress struct {
	Token    ProgressToken `json:"progressToken"`
	Progress float64       `json:"progress"`
	Total    *float64      `json:"total,omitzero"` // nil when unknown
	Message  string        `json:"message,omitzero"`
	Meta     Meta          `json:"_meta,omitzero"`
}
