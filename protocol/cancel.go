package protocol

// Cancelled is the parameters of notifications/cancelled
// (basic/patterns/cancellation).
type Cancelled struct {
	RequestID ID     `json:"requestId"`
	Reason    string `json:"reason,omitzero"`
	Meta      Meta   `json:"_meta,omitzero"`
}
