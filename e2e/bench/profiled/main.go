// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command profiled is the agent, with a CPU profile from SIGUSR1 until SIGUSR2, which also writes the heap and
// allocation profiles, all into its working directory. The real agent has no such door.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"syscall"

	"github.com/roster-mesh/roster/agent"
	"github.com/roster-mesh/roster/agent/tuning"
)

func main() {
	tuning.Start()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "profiled:", err)
		os.Exit(1)
	}
}

// run takes the flags that the harness gives, after the word run.
func run(ctx context.Context) error {
	o := agent.Options{
		NetworkName: "default", ManageSecret: true, CoreResourceSource: true, Version: "profiled",
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	flags := flag.NewFlagSet("profiled", flag.ContinueOnError)
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "")
	flags.StringVar(&o.Namespace, "namespace", "", "")
	flags.StringVar(&o.ClusterName, "cluster-name", "", "")
	flags.StringVar(&o.DataDir, "data-dir", "", "")
	flags.StringVar(&o.MeshListen, "mesh-listen", "", "")
	flags.StringVar(&o.MeshAdvertise, "mesh-advertise", "", "")
	flags.StringVar(&o.HTTPListen, "http-listen", "", "")
	flags.IntVar(&o.Workers, "workers", 16, "")
	flags.String("log-format", "", "")
	if len(os.Args) < 2 {
		return fmt.Errorf("usage: profiled run FLAGS")
	}
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	a, err := agent.New(o)
	if err != nil {
		return err
	}
	go profile(o.Log)
	return a.Run(ctx)
}

func profile(log *slog.Logger) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	var file *os.File
	for s := range signals {
		var err error
		if s == syscall.SIGUSR1 {
			if file, err = os.Create("cpu.pprof"); err == nil {
				err = pprof.StartCPUProfile(file)
			}
		} else {
			pprof.StopCPUProfile()
			err = file.Close()
			runtime.GC() // so that the heap profile is that of now
			for _, kind := range []string{"heap", "allocs"} {
				if err == nil {
					err = write(kind)
				}
			}
		}
		if err != nil {
			log.Error("profile", "error", err)
		}
	}
}

func write(kind string) error {
	file, err := os.Create(kind + ".pprof")
	if err != nil {
		return err
	}
	if err := pprof.Lookup(kind).WriteTo(file, 0); err != nil {
		return err
	}
	return file.Close()
}
