// Package benchmarks measures servers and clients written with this library
// side by side with others, and holds the allocation budget of its hot paths.
//
// It is a module of its own, so that what is compared never enters the module
// graph of a user. See the README for how to run it and what the rows mean.
//
//   - wire: the tools, messages and answers that all peers share, and calls of
//     a handler without a socket
//   - peers: the programs that are compared
package benchmarks
