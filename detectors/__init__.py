"""Judgement: checks give findings, estimates give rates with intervals, drift detectors give verdicts."""
