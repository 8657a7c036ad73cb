// Package wire has the shared parts of a comparison's peers: the tools, the messages, the code that
// reads and checks answers, and the state that handlers seal if their library does not.
package wire

// Every server has these tools.
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

// ConfirmKey is the key of Deploy's question. ConfirmSchema is its form.
const (
	ConfirmKey    = "confirm"
	ConfirmSchema = `{"type":"object","properties":{` +
		`"approve":{"type":"boolean","description":"whether to proceed"},` +
		`"note":{"type":"string","description":"why"}},"required":["approve"]}`
)

// These are the tools' arguments, for peers that decode into structs.
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

// Question returns the message of Deploy's question.
func (d DeployArgs) Question() string {
	return "Deploy " + d.Version + " to " + d.Environment + "?"
}

// Deployed returns the final answer of Deploy.
func (d DeployArgs) Deployed() string { return "deployed " + d.Version + " to " + d.Environment }

// Deployment returns the arguments of every measurement.
func Deployment() DeployArgs { return DeployArgs{Environment, Release} }
