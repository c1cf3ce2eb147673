package main

import "ragd/server"

type mcpCmd struct{}

// Help is shown by ragd mcp --help.
func (mcpCmd) Help() string {
	return `For programs that start their tools themselves. A client's configuration:

  {"mcpServers": {"documents": {"command": "ragd", "args": ["mcp"]}}}

It loads the models like any command. Clients that speak HTTP share a running server instead: POST http://127.0.0.1:8080/mcp`
}

func (mcpCmd) Run(ctx ctxBinding, a *app) error {
	parts, err := a.parts(ctx)
	if err != nil {
		return err
	}
	s, err := server.New(parts, server.Config{Version: version()}, a.log)
	if err != nil {
		return err
	}
	return s.ServeMCP(ctx)
}
