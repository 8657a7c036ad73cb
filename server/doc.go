// Package server answers the requests of Model Context Protocol clients.
package server
