// Package client calls Model Context Protocol servers and answers what they
// ask on the way.
package client
