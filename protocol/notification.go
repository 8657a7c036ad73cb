package protocol

// Progress holds the parameters of notifications/progress (basic/patterns/progress).
type Progress struct {
	Token    ID       `json:"progressToken"`
	Progress float64  `json:"progress"`       // must increase
	Total    *float64 `json:"total,omitzero"` // nil when unknown
	Message  string   `json:"message,omitzero"`
	Meta     Meta     `json:"_meta,omitzero"`
}

// Cancelled holds the parameters of notifications/cancelled (basic/patterns/cancellation).
type Cancelled struct {
	RequestID ID     `json:"requestId"`
	Reason    string `json:"reason,omitzero"`
	Meta      Meta   `json:"_meta,omitzero"`
}

// ElicitationCompleted holds the parameters of notifications/elicitation/complete (2025-11-25).
type ElicitationCompleted struct {
	ElicitationID string `json:"elicitationId"`
}
