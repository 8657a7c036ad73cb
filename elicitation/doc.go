// Package elicitation routes an upstream server's question to the client whose call caused it.
package elicitation
