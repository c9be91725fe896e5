"""The numbers a run is judged by: arrays in, plain numbers or small dataclasses out."""
