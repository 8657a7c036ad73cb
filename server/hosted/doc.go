// Package hosted puts rondo in front of a server that is built on another SDK.
package hosted
