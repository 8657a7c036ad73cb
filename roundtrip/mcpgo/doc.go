package mcpgo
