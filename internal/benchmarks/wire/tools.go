// Package wire holds what the peers of a comparison share: the tools, the messages, how answers are
// read and checked, and the state that handlers seal if their library does not.
package wire

// The tools that every server serves.
const (
	Echo   = "echo"   // answers with its message
	Deploy = "deploy" // asks one question with a form, then answers
)

const (
	EchoSchema = `{"type":"object","properties":{` +
		`"message":{"type":"string","description":"text to echo"},` +
		`"upper":{"type":"boolean","description":"shout"}},"required":["message"]}`
	DeploySchema = `{"type":"object","properties":{` +
		`"environment":{"type":"string","description":"where"},` +
		`"version":{"type":"string","description":"what"}},"required":["environment","version"]}`
)

// ConfirmKey is the key of Deploy's question, and ConfirmSchema its form.
const (
	ConfirmKey    = "confirm"
	ConfirmSchema = `{"type":"object","properties":{` +
		`"approve":{"type":"boolean","description":"whether to proceed"},` +
		`"note":{"type":"string","description":"why"}},"required":["approve"]}`
)

// The arguments of the tools, for peers that decode into structs.
type (
	EchoArgs struct {
		Message string `json:"message"`
		Upper   bool   `json:"upper,omitempty"`
	}
	DeployArgs struct {
		Environment string `json:"environment"`
		Version     string `json:"version"`
	}
)

// Question is the message of Deploy's question.
func (d DeployArgs) Question() string {
	return "Deploy " + d.Version + " to " + d.Environment + "?"
}

// Deployed is the final answer of Deploy.
func (d DeployArgs) Deployed() string { return "deployed " + d.Version + " to " + d.Environment }

// Deployment returns the arguments of every measurement.
func Deployment() DeployArgs { return DeployArgs{Environment, Release} }
